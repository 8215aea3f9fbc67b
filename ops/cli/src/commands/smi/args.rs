//! The arguments of `warploom smi`.

use admin::completion;
use clap::{Args, Subcommand};

use super::fields::{device_fields, process_fields};

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
    /// The tenant of the devices
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
    /// Prints `--query` as XML
    #[arg(short, long = "xml-format")]
    pub xml: bool,
    /// Fields to print of each device, one line a device; a wrong name lists all names
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["list", "query", "xml"],
          add = completion::listed(device_fields))]
    pub query_gpu: Vec<String>,
    /// Fields to print of each process, one line a process; a wrong name lists all names
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["list", "query", "xml", "query_gpu"],
          add = completion::listed(process_fields))]
    pub query_compute_apps: Vec<String>,
    /// Format of fields: csv, with noheader and nounits to leave out the header and the units
    #[arg(long, value_name = "csv[,noheader][,nounits]", value_delimiter = ',',
          add = completion::words(&["csv", "noheader", "nounits"]))]
    pub format: Vec<String>,
    /// Only this device: its index, UUID or PCI bus id; several separated by commas
    #[arg(short, long, value_name = "ID", value_delimiter = ',', global = true)]
    pub id: Vec<String>,
    /// Interval in seconds at which the output is repeated until Ctrl-C
    #[arg(short = 'l', long = "loop", value_name = "SECONDS")]
    pub repeat: Option<f64>,
    /// Only the devices that a program in this environment sees, with that program's numbering
    #[arg(long, global = true)]
    pub program: bool,
    /// Shows something other than the state of the devices
    #[command(subcommand)]
    pub command: Option<SmiCommand>,
}

/// Views of `warploom smi` other than the state of the devices.
#[derive(Debug, Subcommand)]
pub enum SmiCommand {
    /// Shows the tenant's processes and how busy they keep the devices
    #[command(after_help = "\
Examples:
  warploom smi pmon -c 1
  warploom smi pmon --delay 2")]
    Pmon {
        /// Number of samples after which it ends (default: goes on until Ctrl-C)
        #[arg(short, long, value_name = "TIMES")]
        count: Option<u64>,
        /// Seconds between two samples
        #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
        delay: f64,
    },
}
