//! The controller: the cluster's operations over HTTP, live data, logins and roles. It keeps nothing of its
//! own but tokens and logins, in a bucket of the cluster: any number of controllers is one.

mod access;
mod api;
mod cluster;
mod command;
mod feed;
mod http;
mod mcp;
mod metrics;
mod page;
mod position;
mod presence;
mod prices;
mod problem;
mod router;
mod run;
mod server;
mod view;

pub use command::{ControllerArgs, controller};
