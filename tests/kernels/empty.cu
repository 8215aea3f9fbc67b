// Does nothing. What a launch of it costs is the cost of launching.
extern "C" __global__ void empty() {}
