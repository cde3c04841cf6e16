"""The training runs behind the tables in docs/: ``make learning``, or some of it.

    python scripts/learning.py --runs DIR [--row half_cheetah_ppo] [--seed 1]

Each seed of each row is a job of its own, in DIR/ROW/seedS. A job that was interrupted goes on from
its latest checkpoint; a finished one is not run again. A row whose seeds are all finished is
written to docs/results/ROW: the figures, the learning curve, and seed 1's policy; and to the table
in the algorithm's page.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servorl import checkpoint as checkpoints
from servorl.evaluation import evaluate_onnx
from servorl.runs import load_policy
from servorl.training import Run, resume, train

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS = DOCS / "results"
EPISODES, EVALUATION_SEED = 20, 0
BEGIN_TABLE, END_TABLE = "<!-- measured: written by scripts/learning.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Row:
    """One line of a table: what is trained, and the mean return that it must reach."""

    algorithm: str
    env: str
    steps: int
    goal: float
    seeds: tuple[int, ...] = (1, 2, 3)

    @property
    def name(self) -> str:
        """The row's folder, under the runs and under docs/results."""
        return f"{self.env}_{self.algorithm}"

    @property
    def command(self) -> str:
        """What a person types to train the row's policies."""
        seeds = ",".join(map(str, self.seeds))
        return (
            f"servorl train {self.algorithm} --env {self.env} --steps {self.steps} --seeds {seeds}"
        )


ROWS = {
    row.name: row
    for row in (
        Row("ppo", "inverted_pendulum", 100_000, 950),
        Row("ppo", "pendulum", 100_000, -300),
        Row("ppo", "half_cheetah", 1_000_000, 1_500),
    )
}


def run_job(row: Row, seed: int, folder: Path) -> None:
    """Train one seed to its end, from wherever it is."""
    if not checkpoints.has(folder):
        train(row.algorithm, env=row.env, steps=row.steps, seed=seed, out=folder)
    elif load_policy(folder).steps < row.steps:
        resume(folder)


def write_row(row: Row, runs: Path) -> None:
    """Export and evaluate every seed's final checkpoint; write the row's folder in docs/results."""
    out = RESULTS / row.name
    out.mkdir(parents=True, exist_ok=True)
    seeds: list[dict[str, Any]] = []
    curves: dict[int, list[dict[str, Any]]] = {}
    for seed in row.seeds:
        run = Run(runs / row.name / f"seed{seed}")
        with tempfile.TemporaryDirectory() as folder:
            policy = run.export(Path(folder) / "export") / "policy.onnx"
            evaluation = evaluate_onnx(policy, episodes=EPISODES, seed=EVALUATION_SEED)
            if seed == row.seeds[0]:
                shutil.copy(policy, out)
        curves[seed] = run.metrics()
        seeds.append(
            {
                "seed": seed,
                "steps": run.load().steps,
                "mean_return": evaluation.mean_return,
                "std_return": evaluation.std_return,
            }
        )
    means = [entry["mean_return"] for entry in seeds]
    document = {
        "command": row.command,
        "measured": f"mean of {EPISODES} deterministic episodes of the final checkpoint's "
        f"policy.onnx, evaluation seed {EVALUATION_SEED}",
        "goal": row.goal,
        "mean_return": statistics.mean(means),
        "std_over_seeds": statistics.stdev(means),
        "seeds": seeds,
    }
    (out / "results.json").write_text(json.dumps(document, indent=2) + "\n")
    write_curve_table(out / "learning_curve.csv", curves)
    write_curve_picture(out / "learning_curve.png", row, curves)
    write_page_table(row.algorithm)
    print(json.dumps(document, indent=2))
    print(f"written: {out}")


def write_page_table(algorithm: str) -> None:
    """The figures of all rows of an algorithm, between the two marks in its page."""
    lines = [
        "| environment | steps | seed 1 | seed 2 | seed 3 | mean ± std of seeds | command |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in ROWS.values():
        path = RESULTS / row.name / "results.json"
        if row.algorithm != algorithm or not path.is_file():
            continue
        measured = json.loads(path.read_text())
        seeds = " | ".join(
            f"{seed['mean_return']:,.0f} ± {seed['std_return']:,.0f}" for seed in measured["seeds"]
        )
        lines.append(
            f"| `{row.env}` | {row.steps:,d} | {seeds} | **{measured['mean_return']:,.0f}** "
            f"± {measured['std_over_seeds']:,.0f} | `{row.command}` |"
        )
    page = DOCS / "algorithms" / f"{algorithm}.md"
    before, _, rest = page.read_text().partition(BEGIN_TABLE)
    _, _, after = rest.partition(END_TABLE)
    page.write_text("\n".join([before + BEGIN_TABLE, *lines, END_TABLE + after]))


def write_curve_table(path: Path, curves: dict[int, list[dict[str, Any]]]) -> None:
    """Steps, training return and evaluation return of every seed, about 200 rows each."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["seed", "steps", "return_mean", "evaluation_return"])
        for seed, rows in curves.items():
            every = max(1, len(rows) // 200)
            for index, row in enumerate(rows):
                if index % every == 0 or row["evaluation_return"] is not None:
                    cells = [row["return_mean"], row["evaluation_return"]]
                    shown = ["" if cell is None else f"{cell:.2f}" for cell in cells]
                    writer.writerow([seed, row["steps"], *shown])


def write_curve_picture(path: Path, row: Row, curves: dict[int, list[dict[str, Any]]]) -> None:
    """Training return (lines) and deterministic evaluations (dots) of every seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=110)
    for number, (seed, rows) in enumerate(curves.items()):
        for name, style in (("return_mean", "-"), ("evaluation_return", "o")):
            points = [(r["steps"], r[name]) for r in rows if r[name] is not None]
            label = f"seed {seed}" if style == "-" else None
            axes.plot(*zip(*points, strict=True), style, color=f"C{number}", ms=3, label=label)
    axes.axhline(row.goal, color="grey", linewidth=0.8, linestyle="--")
    axes.set(xlabel="environment steps", ylabel="return", title=row.command)
    axes.title.set_fontsize(8)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    """Run the jobs asked for, and write the rows that are complete."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--row", choices=ROWS, action="append", help="only this row")
    parser.add_argument("--seed", type=int, action="append", help="only this seed")
    arguments = parser.parse_args()
    for name in arguments.row or ROWS:
        row = ROWS[name]
        folders = {seed: arguments.runs / name / f"seed{seed}" for seed in row.seeds}
        for seed, folder in folders.items():
            if arguments.seed is None or seed in arguments.seed:
                run_job(row, seed, folder)
        finished = (
            checkpoints.has(folder) and load_policy(folder).steps >= row.steps
            for folder in folders.values()
        )
        if all(finished):
            write_row(row, arguments.runs)


if __name__ == "__main__":
    main()
