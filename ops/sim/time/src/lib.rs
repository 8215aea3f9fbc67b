//! What a simulation stands on: an agenda of virtual time, and the only source of chance.

mod agenda;
mod random;

pub use agenda::{Agenda, MICRO, MILLI, Nanos, SECOND};
pub use random::Random;
