/* Runs a policy on an emulated chip for a host that talks to it through the debugger.
 *
 * The host stops the chip, writes a request into harness_mailbox, lets it run until it notifies, and reads the replies.
 * The chip reaches nothing outside itself but that one signal: an image from elsewhere is safe to run.
 * Each reply carries a hash of the observation as the chip saw it, the action, and what the inference cost.
 *
 * Compiled with SERVORL_PREFIX and SERVORL_PREFIX_UPPER, the policy's prefix; with SERVORL_EMPTY_POLICY instead, there
 * is no policy behind it: what remains is what the policy's flash and RAM are measured against.
 */
#include "harness.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#ifdef SERVORL_EMPTY_POLICY
static int policy_infer(const float *observation, float *action)
{
  action[0] = observation[0];
  return 0;
}
#define OBSERVATION_SIZE SERVORL_OBSERVATION_SIZE
#define ACTION_SIZE SERVORL_ACTION_SIZE
#define INITIALIZE()
#define INFER(observation, action) policy_infer(observation, action)
#define UNCLIPPED(action) (action)
#define HASH() ""
#else
#include "policy.h"
#define NAME(suffix) JOIN(SERVORL_PREFIX, suffix)
#define OBSERVATION_SIZE JOIN(SERVORL_PREFIX_UPPER, _OBSERVATION_SIZE)
#define ACTION_SIZE JOIN(SERVORL_PREFIX_UPPER, _ACTION_SIZE)
static NAME(_state) state;
#define INITIALIZE() NAME(_init)(&state)
#define INFER(observation, action) NAME(_infer)(&state, observation, action)
#define UNCLIPPED(action) NAME(_unclipped_action)(&state)
#define HASH() NAME(_hash)()
#endif

#define BATCH 16
#define PAINT 0xA5C3F00DU

struct reply {
  uint32_t observation_hash;
  uint32_t status;
  uint32_t ticks;
  uint32_t stack;
  float unclipped[ACTION_SIZE];
  float action[ACTION_SIZE];
};

struct mailbox {
  uint32_t sequence; /* written by the host */
  uint32_t count;
  float observation[BATCH][OBSERVATION_SIZE];
  uint32_t answered; /* written by the chip: the sequence number of the request that the replies belong to */
  uint32_t faulted;
  struct reply reply[BATCH];
};

volatile struct mailbox harness_mailbox;
const char *volatile harness_policy_hash;

void harness_fault(void)
{
  harness_mailbox.faulted = 1;
  for (;;) {
    board_notify();
  }
}

/* FNV-1a over the observation's bytes. */
static uint32_t hash_words(const float *values, uint32_t count)
{
  const unsigned char *bytes = (const unsigned char *)values;
  uint32_t hash = 2166136261U;
  uint32_t i;
  for (i = 0; i < count * 4; ++i) {
    hash = (hash ^ bytes[i]) * 16777619U;
  }
  return hash;
}

static uint32_t ticks_between(uint32_t start, uint32_t end)
{
  return (end - start) & board_counter_mask;
}

/* One inference on a painted stack: its status, and what it cost. */
__attribute__((noipa)) static void measure(const float *observation, float *action, struct reply *reply)
{
  uint32_t *const top = board_stack_pointer();
  uint32_t *const limit = board_stack_limit();
  volatile uint32_t *word;
  uint32_t idle;
  uint32_t start;
  uint32_t end;
  for (word = limit; word < top; ++word) {
    *word = PAINT;
  }
  start = board_counter();
  idle = ticks_between(start, board_counter());
  start = board_counter();
  reply->status = (uint32_t)INFER(observation, action);
  end = board_counter();
  reply->ticks = ticks_between(start, end) - idle;
  for (word = limit; word < top && *word == PAINT; ++word) {
  }
  reply->stack = (uint32_t)(top - word) * 4U;
}

static void answer(uint32_t index)
{
  static float observation[OBSERVATION_SIZE];
  static float action[ACTION_SIZE];
  struct reply reply;
  uint32_t i;
  for (i = 0; i < OBSERVATION_SIZE; ++i) {
    observation[i] = harness_mailbox.observation[index][i];
  }
  measure(observation, action, &reply);
  harness_mailbox.reply[index].observation_hash = hash_words(observation, OBSERVATION_SIZE);
  harness_mailbox.reply[index].status = reply.status;
  harness_mailbox.reply[index].ticks = reply.ticks;
  harness_mailbox.reply[index].stack = reply.stack;
  for (i = 0; i < ACTION_SIZE; ++i) {
    harness_mailbox.reply[index].unclipped[i] = UNCLIPPED(action)[i];
    harness_mailbox.reply[index].action[i] = action[i];
  }
}

void harness_run(void)
{
  harness_policy_hash = HASH();
  INITIALIZE();
  board_notify();
  for (;;) {
    const uint32_t sequence = harness_mailbox.sequence;
    uint32_t i;
    if (sequence == harness_mailbox.answered) {
      continue;
    }
    for (i = 0; i < harness_mailbox.count && i < BATCH; ++i) {
      answer(i);
    }
    harness_mailbox.answered = sequence;
    board_notify();
  }
}
