//! The device that a worker is to own, and what runs kernels on a CPU: the words of the settings.

use std::str::FromStr;

/// Which device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if there is a driver that opens it, else the CPU.
    #[default]
    Auto,
    /// The CPU, whatever there is.
    Cpu,
    /// A GPU or nothing.
    Cuda,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => Err(format!("{text:?} is not a device: auto, cpu or cuda")),
        }
    }
}

/// What runs kernels on the CPU device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// Native code for what the generator knows, the interpreter for the rest.
    Native,
    /// The interpreter alone.
    Interpreter,
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(Self::Native),
            "interpreter" => Ok(Self::Interpreter),
            _ => Err(format!("{text:?} is not an engine: native or interpreter")),
        }
    }
}
