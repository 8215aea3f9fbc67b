//! The tracer: one role of a cluster that makes traces of its programs' requests.
//!
//! Programs report their requests once they have ended ([`bus_schemas::RequestReports`]). The record has the times and
//! the causes of every wait. The tracer follows the record with an explaining replay, joins both by session and op, and
//! exports one trace for each request over OTLP. It works beside the launch path: no launch waits for it, and no
//! message of a launch carries a trace.
//!
//! [`mod@tracer`] and the modules below it are pure. [`run`], [`record`], [`reports`] and [`export`] are its shell.
//! The ids of spans are functions of what they stand for, so a tracer that is started again exports no request under
//! a second id.

mod attribute;
mod clock;
mod command;
mod demangle;
mod destinations;
mod drops;
mod export;
mod failed;
mod fit;
mod gaps;
mod idle;
mod ids;
mod join;
mod kernels;
mod links;
mod parts;
mod record;
mod reports;
mod run;
mod sampling;
mod slices;
mod timeline;
mod trace;
mod tracer;
mod waits;
mod work;

pub use command::{TracerArgs, tracer};
