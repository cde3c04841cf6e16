# servorl._cuda: built where nvcc is found, with the runtime linked statically; without nvcc nothing changes.
