//! A loader of PTX, without a device. `load FILE...` reports each file that does not load, and the
//! reason. `load -` reads modules from standard input, each ended by a NUL. It prints a line for
//! each: empty, or the reason that the module does not load.

use std::io::Read as _;
use std::process::ExitCode;

fn load(text: &str) -> Result<(), String> {
    let program = device_cpu::Program::build(text);
    program.map(drop).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let mut refused = false;
    for file in std::env::args().skip(1) {
        if file == "-" {
            let mut text = String::new();
            if std::io::stdin().read_to_string(&mut text).is_err() {
                return ExitCode::from(2);
            }
            for module in text.split_terminator('\0') {
                println!("{}", load(module).err().unwrap_or_default());
            }
            continue;
        }
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        if let Err(error) = text.and_then(|text| load(&text)) {
            refused = true;
            eprintln!("{file}: {error}");
        }
    }
    ExitCode::from(u8::from(refused))
}
