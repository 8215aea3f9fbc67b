//! The whole of it, end to end: real processes of the binary under test, a real nats-server,
//! roles that get killed, paused and cut off, users who get it wrong.

mod bad_input;
mod bounds;
mod brief;
mod brokers;
mod chaos;
mod children;
mod cluster;
mod commands;
mod cudarc_program;
mod demo;
mod driver;
mod errors;
mod failover;
mod faults;
mod guest;
mod leftovers;
mod load;
mod lost;
mod manners;
mod members;
mod neighbour;
mod order;
mod partition;
mod placement;
mod preemption;
mod run;
mod sharing;
mod silence;
mod stage;
mod storage;
mod tables;
mod targets;
mod usage;
mod variables;
mod waits;
