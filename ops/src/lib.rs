//! Warploom: the command line, the local cluster, the demo and the benchmarks.

pub mod accounts;
pub mod admin;
pub mod bench;
pub mod calendar;
pub mod chaos;
pub mod cli;
pub mod cluster_settings;
pub mod commands;
pub mod demo;
pub mod display;
pub mod drop_in;
pub mod evidence;
pub mod exit;
pub mod local;
pub mod output;
pub mod profiles;
pub mod record;
pub mod settings;
pub mod table;
pub mod target;
pub mod timeline;
pub mod virtual_device;
