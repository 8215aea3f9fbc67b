//! The kinds of process.

mod administrator;
mod client;
mod leader;
mod worker;

pub(crate) use administrator::{Administrator, Errand, inbox};
pub(crate) use client::ClientNode;
pub(crate) use leader::LeaderProcess;
pub(crate) use worker::WorkerNode;
