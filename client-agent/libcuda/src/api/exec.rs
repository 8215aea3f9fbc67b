//! Executable graphs: instantiating, changing, launching.

use std::ffi::{c_int, c_uint};
use std::sync::Mutex;

use super::stream::device as of_stream;
use crate::abi::{Count, InOut, Out, OutList};
use crate::capture::or_capture;
use crate::current_context::current_device;
use crate::graph::{EXECS, Exec, Graph, Work, graph};
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// `CUgraphExecUpdateResult`.
const TOPOLOGY_CHANGED: c_int = 2;
const KIND_CHANGED: c_int = 3;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstantiateParams {
    flags: u64,
    stream: usize,
    node: usize,
    result: c_int,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateInfo {
    result: c_int,
    node: usize,
    from: usize,
}

fn instantiate(handle: usize, flags: u64) -> Result<usize> {
    current_device()?;
    let graph = graph(handle)?;
    let steps = graph.steps()?;
    let held = graph.held().clone();
    Ok(EXECS.add(Exec {
        flags,
        _held: held,
        steps: Mutex::new(steps),
    }))
}

/// Takes over the work of a graph of the same shape; the first node that differs, and how.
fn update(exec: usize, handle: usize) -> std::result::Result<(), (Status, c_int, usize)> {
    let wrong = |status| (status, 1, 0);
    let exec = EXECS.get(exec).ok_or(wrong(Status::INVALID_HANDLE))?;
    let mut new = graph(handle)
        .and_then(|graph| graph.steps())
        .map_err(wrong)?;
    let mut steps = exec.lock();
    let failed = |how, node| (Status::GRAPH_EXEC_UPDATE_FAILURE, how, node);
    if steps.len() != new.len() {
        return Err(failed(TOPOLOGY_CHANGED, 0));
    }
    for (old, new) in steps.iter().zip(&new) {
        if old.work.kind() != new.work.kind() {
            return Err(failed(KIND_CHANGED, new.node));
        }
        if old.after != new.after {
            return Err(failed(TOPOLOGY_CHANGED, new.node));
        }
    }
    for (old, new) in steps.iter_mut().zip(&mut new) {
        std::mem::swap(&mut old.work, &mut new.work);
    }
    Ok(())
}

fn launch(exec: usize, stream: usize) -> Result {
    let number = number_of(stream)?;
    let exec = EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?;
    let record = || {
        let child = Graph::create();
        let mut after = Vec::new();
        for step in exec.lock().iter().filter(|step| step.enabled) {
            if !matches!(step.work, Work::Child(_)) {
                after = vec![child.add(step.work.clone(), &after)?];
            }
        }
        Ok(Work::Child(child))
    };
    or_capture(stream, record, || {
        exec.launch(of_stream(stream)?, stream, number)
    })
}

api! {
    fn cuGraphInstantiate_v2(
        exec: Out<'_, usize>,
        handle: usize,
        node: Out<'_, usize>,
        log: OutList<'_, u8>,
        size: Count<'_>,
    ) also cuGraphInstantiate {
        exec.check()?;
        let made = instantiate(handle, 0);
        // What is wrong is said by the status: the log is empty, where there is one.
        node.put_if(0);
        let _ = log.put(size, [0]);
        exec.put(made?)
    }

    fn cuGraphInstantiateWithFlags(exec: Out<'_, usize>, handle: usize, flags: u64) {
        exec.check()?;
        exec.put(instantiate(handle, flags)?)
    }

    fn cuGraphInstantiateWithParams(
        exec: Out<'_, usize>,
        handle: usize,
        params: InOut<'_, InstantiateParams>,
    ) also cuGraphInstantiateWithParams_ptsz {
        exec.check()?;
        let mut answered = params.take()?;
        let made = instantiate(handle, answered.flags);
        // Results: all well, or another error.
        answered.result = c_int::from(made.is_err());
        answered.node = 0;
        params.put(answered)?;
        exec.put(made?)
    }

    fn cuGraphExecUpdate(exec: usize, handle: usize, node: Out<'_, usize>, result: Out<'_, c_int>) {
        process()?;
        let (status, how, at) = match update(exec, handle) {
            Ok(()) => (Ok(()), 0, 0),
            Err((status, how, at)) => (Err(status), how, at),
        };
        node.put_if(at);
        result.put_if(how);
        status
    }

    fn cuGraphExecUpdate_v2(exec: usize, handle: usize, info: Out<'_, UpdateInfo>) {
        process()?;
        let (status, result, node) = match update(exec, handle) {
            Ok(()) => (Ok(()), 0, 0),
            Err((status, how, at)) => (Err(status), how, at),
        };
        info.put_if(UpdateInfo { result, node, from: 0 });
        status
    }

    fn cuGraphExecGetFlags(exec: usize, flags: Out<'_, u64>) {
        let found = EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?.flags;
        flags.put(found)
    }

    fn cuGraphNodeSetEnabled(exec: usize, node: usize, enabled: c_uint) {
        EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?.with(node, |step| {
            step.enabled = enabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(exec: usize, node: usize, enabled: Out<'_, c_uint>) {
        let exec = EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?;
        let found = exec.with(node, |step| Ok(c_uint::from(step.enabled)))?;
        enabled.put(found)
    }

    fn cuGraphUpload(exec: usize, stream: usize) also cuGraphUpload_ptsz {
        number_of(stream)?;
        EXECS.get(exec).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuGraphLaunch(exec: usize, stream: usize) also cuGraphLaunch_ptsz {
        launch(exec, stream)
    }

    fn cuGraphExecDestroy(exec: usize) {
        process()?;
        EXECS.remove(exec).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }
}
