//! Launches in the style of CUDA 3, and contexts that are attached to.

use std::ffi::{c_int, c_uint};

use crate::abi::{Bytes, Count, Handle, Out};
use crate::capture::or_capture;
use crate::context::Context;
use crate::current_context::{current, current_device};
use crate::graph::{Launch, Work};
use crate::guard::api;
use crate::launch::{self, How, Shape};
use crate::module::Kernel;
use crate::old_launch::OldLaunch;
use crate::reset;
use crate::stack;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// Changes the settings of a kernel.
fn change(kernel: Handle<Kernel>, body: impl FnOnce(&mut OldLaunch) -> Result) -> Result {
    kernel.with(|kernel| body(&mut kernel.old()))?
}

fn place(offset: c_int) -> Result<usize> {
    usize::try_from(offset).map_err(|_| Status::INVALID_VALUE)
}

/// Launches a kernel with its settings.
fn launch(
    kernel: Handle<Kernel>,
    (width, height): (c_int, c_int),
    stream: Handle<Stream>,
) -> Result {
    let number = stream.op_number()?;
    let dim = |number: c_int| u32::try_from(number).ok().filter(|it| *it > 0);
    let (width, height) = (dim(width), dim(height));
    let (Some(width), Some(height)) = (width, height) else {
        return Err(Status::INVALID_VALUE);
    };
    let found = kernel.get()?;
    let ((block, shared), params) = {
        let old = found.old();
        let bytes = found.entry().param_bytes as usize;
        (old.shape(), old.parameters(bytes)?)
    };
    let how = How::plain(Shape {
        grid: [width, height, 1],
        block,
        shared,
    });
    let node = || Ok(Work::Kernel(Launch::packed(how, kernel, &found, &params)));
    or_capture(stream, node, || {
        launch::start(current_device()?, &found, how, number, &params)
    })
}

api! {
    fn cuFuncSetBlockShape(kernel: Handle<Kernel>, x: c_int, y: c_int, z: c_int) {
        let block = [x, y, z].map(|it| u32::try_from(it).unwrap_or(0));
        change(kernel, |old| old.set_block(block))
    }

    fn cuFuncSetSharedSize(kernel: Handle<Kernel>, bytes: c_uint) => change(kernel, |old| {
        old.set_shared(bytes);
        Ok(())
    });

    fn cuParamSetSize(kernel: Handle<Kernel>, bytes: c_uint)
        => change(kernel, |old| old.set_size(bytes as usize));
    fn cuParamSeti(kernel: Handle<Kernel>, offset: c_int, value: c_uint)
        => change(kernel, |old| old.set(place(offset)?, &value.to_ne_bytes()));
    fn cuParamSetf(kernel: Handle<Kernel>, offset: c_int, value: f32)
        => change(kernel, |old| old.set(place(offset)?, &value.to_ne_bytes()));

    fn cuParamSetv<'c>(kernel: Handle<Kernel>, offset: c_int, value: Bytes<'c>, count: Count<'c, c_uint>) {
        let offset = place(offset)?;
        change(kernel, |old| old.set(offset, value.slice(count.whole())?))
    }

    fn cuLaunch(kernel: Handle<Kernel>) => launch(kernel, (1, 1), Handle::NULL);
    fn cuLaunchGrid(kernel: Handle<Kernel>, width: c_int, height: c_int)
        => launch(kernel, (width, height), Handle::NULL);
    fn cuLaunchGridAsync(kernel: Handle<Kernel>, width: c_int, height: c_int, stream: Handle<Stream>)
        => launch(kernel, (width, height), stream);

    fn cuCtxAttach(context: Out<'_, Handle<Context>>, flags: c_uint) {
        let (_, found) = current()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        found.attach()?;
        context.put(found.handle)
    }

    fn cuCtxDetach(context: Handle<Context>) {
        let found = context.get()?;
        if stack::top() != context {
            return Err(Status::INVALID_CONTEXT);
        }
        match found.detach()? {
            true => reset::destroy(context),
            false => Ok(()),
        }
    }
}
