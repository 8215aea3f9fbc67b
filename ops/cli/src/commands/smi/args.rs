//! The arguments of `warploom smi`.

use clap::{Args, Subcommand};

use super::fields::{device_fields, process_fields};
use crate::completion;

/// `warploom smi`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom smi
  warploom smi -L
  warploom smi -q -x -i 0
  warploom smi --query-gpu=name,memory.used,memory.total --format=csv,noheader,nounits
  warploom smi --query-compute-apps=pid,process_name,used_memory --format=csv
  warploom smi pmon -c 1
  warploom run -- nvidia-smi        the same command, where the program's machine has no other

A tenant sees its own: memory is its quota, utilization and processes are those of its programs.
docs/reference/nvml.md says what each number means.")]
pub struct SmiArgs {
    /// Whose devices they are
    #[arg(
        long,
        default_value = "default",
        env = "WARPLOOM_TENANT",
        global = true,
        add = completion::tenants()
    )]
    pub tenant: bus_schemas::Tenant,
    /// Lists the devices with their UUIDs
    #[arg(short = 'L', long = "list-gpus")]
    pub list: bool,
    /// Prints all that is known of each device
    #[arg(short, long)]
    pub query: bool,
    /// Prints it as XML
    #[arg(short, long = "xml-format")]
    pub xml: bool,
    /// Fields of each device, a line for each device; a wrong name is answered with all names
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["list", "query", "xml"],
          add = completion::listed(device_fields))]
    pub query_gpu: Vec<String>,
    /// Fields of each process, a line for each process; a wrong name is answered with all names
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["list", "query", "xml", "query_gpu"],
          add = completion::listed(process_fields))]
    pub query_compute_apps: Vec<String>,
    /// How fields are printed: csv, with noheader and nounits if they are to be left out
    #[arg(long, value_name = "csv[,noheader][,nounits]", value_delimiter = ',',
          add = completion::words(&["csv", "noheader", "nounits"]))]
    pub format: Vec<String>,
    /// Only this device: its index, UUID or place on the PCI bus; several with commas
    #[arg(short, long, value_name = "ID", value_delimiter = ',', global = true)]
    pub id: Vec<String>,
    /// Repeats every so many seconds until Ctrl-C
    #[arg(short = 'l', long = "loop", value_name = "SECONDS")]
    pub repeat: Option<f64>,
    /// Only the devices that a program of this environment sees, numbered as it numbers them
    #[arg(long, global = true)]
    pub program: bool,
    /// Something else than the state of the devices
    #[command(subcommand)]
    pub command: Option<SmiCommand>,
}

/// What `warploom smi` shows beside the devices' state.
#[derive(Debug, Subcommand)]
pub enum SmiCommand {
    /// Shows the tenant's processes and how busy they keep the devices
    #[command(after_help = "\
Examples:
  warploom smi pmon -c 1
  warploom smi pmon --delay 2")]
    Pmon {
        /// Ends after so many looks (default: goes on until Ctrl-C)
        #[arg(short, long, value_name = "TIMES")]
        count: Option<u64>,
        /// Seconds between two looks
        #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
        delay: f64,
    },
}
