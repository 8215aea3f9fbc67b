//! The three kinds of process.

mod client;
mod leader;
mod worker;

pub(crate) use client::ClientNode;
pub(crate) use leader::LeaderProcess;
pub(crate) use worker::WorkerNode;
