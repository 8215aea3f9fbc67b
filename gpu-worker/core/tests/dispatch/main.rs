//! The dispatch: what a started slice waits for, and in which order the device gets it.

mod claims;
mod order;
mod rules;
mod scan;
mod shell;
mod steps;
