//! The causes of launches' waits and of devices' idle time. They are read from the record and the
//! times beside it, never from thresholds. See `README.md` beside this file.

mod cause;
mod clock;
mod device;
mod explainer;
mod idle;
mod line;
mod position;
mod sums;

pub use cause::Cause;
pub use device::DeviceDay;
pub(crate) use explainer::Explainer;
pub use idle::DeviceIdle;
pub use position::Timing;
pub use sums::Wait;
