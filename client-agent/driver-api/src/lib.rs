//! The CUDA driver API as a table: for each function its section of the manual, the state that it needs, and for
//! each parameter which arguments the manual allows.
//!
//! The drop-in `libcuda.so.1` refuses arguments by it ([`Function::refusal`]), and `warploom conform` makes checks
//! of it. Facts are those of NVIDIA's *CUDA Driver API* reference, CUDA 12 and 13.

mod function;
mod role;
mod table;

pub use function::{DuringCapture, Function, Parameter, State};
pub use role::{Object, Role};
pub use table::{FUNCTIONS, function};
