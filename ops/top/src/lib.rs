//! `warploom top`: what the control room's page shows, in a terminal. What is shown and what a key does are
//! functions of samples and keys (`rows`, `lanes`, `room`); the terminal and the cluster are in `command`.

mod command;
mod lanes;
mod live;
mod look;
mod room;
mod rows;
mod table;
mod view;

pub use command::{TopArgs, top};
