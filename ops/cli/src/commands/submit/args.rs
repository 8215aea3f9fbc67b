//! The arguments of `warploom submit`.

use std::path::PathBuf;

use clap::Args;

/// `warploom submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Arguments, in the kernel's order, one --arg each:
  f32:2.5                 a scalar: i8 u8 i16 u16 i32 u32 i64 u64 f32 f64
  f32*1024=1.5            a device buffer of 1024 elements, all set to 1.5
  f32*1024:FILE           a device buffer filled from FILE (little-endian, or text if FILE is .txt)
  f32[1,2,3]              a device buffer with these elements
--out N prints argument N (from 0; a buffer) after the run; --out N:FILE writes its bytes.

Example:
  warploom submit --tenant default tests/kernels/saxpy.ptx saxpy --grid 1 --block 4 \\
      --arg u32:4 --arg f32:2 --arg f32[1,2,3,4] --arg f32*4=10 --out 3")]
pub struct SubmitArgs {
    /// PTX file
    pub ptx: PathBuf,
    /// Entry function
    #[arg(add = admin::completion::kernels())]
    pub entry: String,
    /// The session's tenant; created if it does not exist and the credentials and the cluster allow
    /// it
    #[arg(long, default_value = "default", add = admin::completion::tenants())]
    pub tenant: bus_schemas::Tenant,
    /// Blocks: x, x,y or x,y,z
    #[arg(long, default_value = "1", value_parser = dim)]
    pub grid: bus_schemas::Dim,
    /// Threads per block: x, x,y or x,y,z
    #[arg(long, default_value = "1", value_parser = dim)]
    pub block: bus_schemas::Dim,
    /// Dynamic shared memory, bytes
    #[arg(long, default_value_t = 0)]
    pub shared: u32,
    /// A kernel argument (see below)
    #[arg(long = "arg", value_name = "ARG")]
    pub args: Vec<String>,
    /// A buffer to print or write afterwards (default: all buffers)
    #[arg(long = "out", value_name = "N[:FILE]")]
    pub out: Vec<String>,
    /// Number of devices to run on, each on another worker; all run the same, with results by
    /// device
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
    /// Number of launches before the results are read
    #[arg(long, default_value_t = 1)]
    pub repeat: u32,
}

fn dim(text: &str) -> Result<bus_schemas::Dim, String> {
    let mut dim = [1; 3];
    let mut parts = text.split(',');
    for slot in &mut dim {
        if let Some(part) = parts.next() {
            *slot = part
                .trim()
                .parse()
                .map_err(|_| format!("{part:?} is not a number"))?;
        }
    }
    parts
        .next()
        .map_or(Ok(dim), |_| Err("at most three dimensions".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions() {
        assert_eq!(dim("4"), Ok([4, 1, 1]));
        assert_eq!(dim("4,2,3"), Ok([4, 2, 3]));
        assert!(dim("1,2,3,4").is_err() && dim("x").is_err());
    }
}
