//! The worker's rules one by one: patience, voids, seals, refusals, reports, results, draining.

mod batches;
mod bench;
mod endings;
mod leaders;
mod patience;
mod priorities;
mod sealing;
mod staged;
mod standing;
