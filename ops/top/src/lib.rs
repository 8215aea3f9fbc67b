//! The command `warploom top`: the control room's page in a terminal. The picture and the effect of
//! a key are functions of samples and keys (`rows`, `lanes`, `room`). The module `command` handles
//! the terminal and the cluster.

mod command;
mod lanes;
mod live;
mod look;
mod room;
mod rows;
mod table;
mod view;

pub use command::{TopArgs, top};
