//! The controller: the cluster's operations over HTTP, live data, logins and roles. Its only own
//! state is tokens and logins, in a bucket of the cluster; any number of controllers act as one.

mod access;
mod api;
mod cluster;
mod command;
mod explained;
mod failures;
mod feed;
mod http;
mod mcp;
mod metrics;
mod page;
mod position;
mod position_event;
mod presence;
mod prices;
mod problem;
mod reading;
mod router;
mod run;
mod server;
mod view;
mod waits;

pub use command::{ControllerArgs, controller};
