//! The work of a graph's nodes: how it is recorded and done.

use std::sync::Arc;

use super::recorded::{Launch, Work};
use crate::abi::Handle;
use crate::copy3d::Copy3D;
use crate::device::Device;
use crate::launch::{Arguments, How, start};
use crate::module::Kernel;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work;

impl Launch {
    /// Makes a launch with parameters that are read now.
    pub(crate) fn new(how: How, arguments: Arguments<'_>) -> Result<Self> {
        let (block, of) = arguments.packed()?;
        Ok(Self::packed(how, arguments.kernel(), &of, &block))
    }

    /// Makes a launch with parameters in a block.
    pub(crate) fn packed(how: How, kernel: Handle<Kernel>, of: &Kernel, block: &[u8]) -> Self {
        let params: Arc<[u8]> = block.into();
        let base = params.as_ptr() as usize;
        let each = &of.entry().params;
        let pointers = each.iter().map(|param| base + param.offset as usize);
        Self {
            kernel,
            how,
            pointers: pointers.collect(),
            params,
        }
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

    /// Replaces the work by other work of the same kind, and returns the old work. A launch keeps
    /// its attributes, because node parameters have none. Without them, a kernel of clusters would
    /// run wrong.
    pub(crate) fn replace(&mut self, mut new: Self) -> Result<Self> {
        if self.kind() != new.kind() {
            return Err(Status::INVALID_VALUE);
        }
        if let (Self::Kernel(old), Self::Kernel(new)) = (&*self, &mut new) {
            new.how.attributes = old.how.attributes;
        }
        Ok(std::mem::replace(self, new))
    }

    /// Appends the work to a device's work.
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

#[cfg(test)]
mod tests {
    use bus_schemas::LaunchAttributes;

    use super::*;
    use crate::launch::Shape;

    fn kernel(blocks: u32, attributes: LaunchAttributes) -> Work {
        let shape = Shape {
            grid: [blocks, 1, 1],
            block: [32, 1, 1],
            shared: 0,
        };
        Work::Kernel(Launch {
            kernel: Handle::NULL,
            how: How { shape, attributes },
            params: Arc::from([]),
            pointers: Arc::from([]),
        })
    }

    #[test]
    fn a_launch_keeps_its_attributes_when_its_parameters_change() {
        let attributes = LaunchAttributes {
            cluster: [2, 1, 1],
            cooperative: true,
            ..LaunchAttributes::default()
        };
        let mut work = kernel(4, attributes);
        let plain = kernel(8, LaunchAttributes::default());
        work.replace(plain).expect("the same kind");
        let Work::Kernel(launch) = &work else {
            panic!("{work:?} is no launch");
        };
        assert_eq!(launch.how.shape.grid, [8, 1, 1]);
        assert_eq!(launch.how.attributes, attributes);
        assert!(work.replace(Work::Empty).is_err());
    }
}
