//! The dispatch: the waits of a started slice, and the order in which the device gets slices.

mod claims;
mod order;
mod rules;
mod scan;
mod shell;
mod steps;
