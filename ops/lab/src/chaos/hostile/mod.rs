//! `warploom chaos --hostile`: a tenant that floods and forges, beside one that computes.

mod attacker;
mod bodies;
mod effects;
mod eyes;
mod flood;
mod forge;
mod forger;
mod obey;
pub(super) mod phases;
mod probe;
mod run;
pub(super) mod secret;

pub use obey::run_hostile;
pub(super) use run::Run;
