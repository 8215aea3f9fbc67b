//! The work of a graph's nodes: recording it and doing it.

use std::sync::Arc;

use super::recorded::{Launch, Work};
use crate::abi::Handle;
use crate::copy3d::Copy3D;
use crate::device::Device;
use crate::launch::{Arguments, How, start};
use crate::status::Result;
use crate::stream::Stream;
use crate::work;

impl Launch {
    /// A launch whose parameters are taken now.
    pub(crate) fn new(how: How, arguments: Arguments<'_>) -> Result<Self> {
        let (block, of) = arguments.packed()?;
        let params: Arc<[u8]> = block.into();
        let base = params.as_ptr() as usize;
        let each = &of.entry().params;
        let pointers = each.iter().map(|param| base + param.offset as usize);
        Ok(Self {
            kernel: arguments.kernel(),
            how,
            pointers: pointers.collect(),
            params,
        })
    }
}

impl Work {
    /// `CUgraphNodeType`.
    pub(crate) fn kind(&self) -> i32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
        }
    }

    /// Appends it to a device's work.
    pub(super) fn run(&self, device: &Device, stream: Handle<Stream>, number: u16) -> Result {
        match self {
            Self::Kernel(launch) => {
                let run = |kernel: &_| start(device, kernel, launch.how, number, &launch.params);
                launch.kernel.with(run)?
            }
            Self::Copy(copy) => copy.run(),
            Self::Fill(fill) => fill.run(),
            Self::Host(call) => {
                work::sync(device)?;
                call.call();
                Ok(())
            }
            Self::Wait(event) => crate::event::wait(*event, device),
            Self::Record(event) => crate::event::record(*event, stream),
            Self::Child(_) | Self::Empty => Ok(()),
        }
    }
}

impl Copy3D<'_> {
    /// The copy as work of a graph; an array that it does not fit is an error now.
    pub(crate) fn node(self) -> Result<Work> {
        self.resolved()?;
        Ok(Work::Copy(self.kept()))
    }
}
