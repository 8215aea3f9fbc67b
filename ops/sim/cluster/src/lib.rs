//! One simulated cluster. Leaders, workers and clients are real cores in thin shells that decide nothing,
//! on a modelled bus and store, in one thread and in virtual time.
//!
//! Everything is drawn from one seed. The users of this crate supply the devices of the workers, the
//! clients' programs, and the observer. They are the simulation of faults (`sim-faults`) and the comparison
//! of schedulers (`sim-compare`).

mod agenda;
mod client;
mod cluster;
mod fact;
mod leader;
mod network;
mod node;
mod observer;
mod print;
mod random;
mod slowness;
mod store;
mod store_faults;
pub mod time_text;
pub mod wire;
mod worker;

pub use agenda::{Agenda, MICRO, MILLI, Nanos, SECOND};
pub use client::{ClientNode, ClientProgram, Habits, ProgramProgress};
pub use cluster::{Cluster, ClusterOptions, Delays, Factory, Undo};
pub use fact::{ClientFact, LeaderFact, NodeFact, WorkerFact};
pub use leader::LeaderProcess;
pub use network::{AllowedSubjects, Jitter, Lossy, Mishap, Network, NodeId, Packet, Ways};
pub use node::{Connection, Io, Node, NodeEffect, NodeInput, NodeRole, Slot};
pub use observer::ClusterObserver;
pub use print::{fingerprint, mix};
pub use random::Random;
pub use scheduler_leader_core::LeaderConfig;
pub use store::{
    LEASE, LEASE_TTL, PLACEMENT, PROFILE, Store, StoreReply, StoreRequest, StoredBlock,
};
pub use store_faults::StoreFaults;
pub use worker::{
    DEVICE, Ended, Reports, SimDevice, SimSlice, SliceEnd, WorkerNode, WorkerOptions,
};
