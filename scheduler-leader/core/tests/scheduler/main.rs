//! The order: its invariants on random clusters, and an earlier record that is ordered as it was.

mod fairness;
mod golden;
mod invariants;
mod model;
mod overcommit;
mod placement;
mod returns;
mod shares;
mod standing;
mod steps;
mod suspended;
mod targets;
