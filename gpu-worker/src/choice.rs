//! The settings of the device that a worker owns, and of the engine that runs kernels on a CPU.

use std::str::FromStr;

/// The device to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if a driver opens it, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU in any case.
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

/// The engine for kernels on the CPU device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// Native code for kernels that the generator supports, the interpreter for the rest.
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
