//! The CUDA driver API as a table. For each function, it has the section of the manual, the
//! required state, and the arguments that the manual allows for each parameter.
//!
//! The drop-in `libcuda.so.1` uses it to refuse arguments ([`DriverFunction::refusal`]), and
//! `warploom conform` derives checks from it. The facts are from NVIDIA's *CUDA Driver API*
//! reference, CUDA 12 and 13.

mod function;
mod role;
mod table;

pub use function::{DriverFunction, DuringCapture, Parameter, State};
pub use role::{Object, ParameterRole};
pub use table::{FUNCTIONS, function};
