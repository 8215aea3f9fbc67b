//! Parses and decodes PTX files: `load FILE...` says of each that it does not load, and why.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut refused = false;
    for file in std::env::args().skip(1) {
        let loaded = std::fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| device_cpu::Program::build(&text).map_err(|error| error.to_string()));
        if let Err(error) = loaded {
            refused = true;
            eprintln!("{file}: {error}");
        }
    }
    ExitCode::from(u8::from(refused))
}
