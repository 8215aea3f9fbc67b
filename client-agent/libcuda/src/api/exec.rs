//! Executable graphs: instantiation, updates, launches.

use std::ffi::{c_int, c_uint};
use std::sync::Mutex;

use crate::abi::{Count, Handle, InOut, Out, OutList};
use crate::capture::{self, or_capture};
use crate::current_context::current_device;
use crate::graph::{Exec, Graph, Node, Work};
use crate::guard::api;
use crate::handle::Object;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// `CUgraphExecUpdateResult`.
const TOPOLOGY_CHANGED: c_int = 2;
const KIND_CHANGED: c_int = 3;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstantiateParams {
    flags: u64,
    stream: Handle<Stream>,
    node: Handle<Node>,
    result: c_int,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateInfo {
    result: c_int,
    node: Handle<Node>,
    from: Handle<Node>,
}

fn instantiate(graph: Handle<Graph>, flags: u64) -> Result<Handle<Exec>> {
    current_device()?;
    let graph = graph.get()?;
    graph.is_whole()?;
    let steps = Mutex::new(graph.steps()?);
    let _held = graph.held().clone();
    Ok(Exec::table().add(Exec {
        flags,
        _held,
        steps,
    }))
}

fn instantiate_with(
    exec: &Out<'_, Handle<Exec>>,
    graph: Handle<Graph>,
    params: &InOut<'_, InstantiateParams>,
) -> Result {
    exec.put_made(|| {
        let asked = params.take()?;
        let made = instantiate(graph, asked.flags);
        // Result codes: 0 is success, 1 another error.
        let result = c_int::from(made.is_err());
        let node = Handle::NULL;
        params.put(InstantiateParams {
            result,
            node,
            ..asked
        })?;
        made
    })
}

/// The result of an update: how the graphs differ, and the first node that does.
type Updated = (Result, c_int, Handle<Node>);

/// Takes over the work of a graph with the same topology.
fn update(exec: Handle<Exec>, graph: Handle<Graph>) -> Updated {
    let new = graph
        .get()
        .and_then(|graph| graph.is_whole().and_then(|()| graph.steps()));
    let (exec, mut new) = match (exec.get(), new) {
        (Ok(exec), Ok(new)) => (exec, new),
        (Err(status), _) | (_, Err(status)) => return (Err(status), 1, Handle::NULL),
    };
    let mut steps = exec.lock();
    let failed = |how, node| (Err(Status::GRAPH_EXEC_UPDATE_FAILURE), how, node);
    if steps.len() != new.len() {
        return failed(TOPOLOGY_CHANGED, Handle::NULL);
    }
    for (old, new) in steps.iter().zip(&new) {
        if old.work.kind() != new.work.kind() {
            return failed(KIND_CHANGED, new.node);
        }
        if old.after != new.after {
            return failed(TOPOLOGY_CHANGED, new.node);
        }
    }
    for (old, new) in steps.iter_mut().zip(&mut new) {
        std::mem::swap(&mut old.work, &mut new.work);
    }
    (Ok(()), 0, Handle::NULL)
}

fn launch(exec: Handle<Exec>, stream: Handle<Stream>) -> Result {
    let number = stream.op_number()?;
    let exec = exec.get()?;
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
        exec.launch(stream.device()?, stream, number)
    })
}

api! {
    fn cuGraphInstantiate_v2<'c>(
        exec: Out<'_, Handle<Exec>>, graph: Handle<Graph>, node: Out<'_, Handle<Node>>,
        log: OutList<'c, u8>, size: Count<'c>,
    ) also cuGraphInstantiate {
        exec.put_made(|| {
            let made = instantiate(graph, 0);
            // The status says what is wrong; the log, if there is one, stays empty.
            node.put_if(Handle::NULL);
            let _ = log.put(size, [0]);
            made
        })
    }

    fn cuGraphInstantiateWithFlags(exec: Out<'_, Handle<Exec>>, graph: Handle<Graph>, flags: u64)
        => exec.put_made(|| instantiate(graph, flags));

    fn cuGraphInstantiateWithParams(
        exec: Out<'_, Handle<Exec>>, graph: Handle<Graph>, params: InOut<'_, InstantiateParams>,
    ) => instantiate_with(&exec, graph, &params);

    // Nothing is uploaded before a launch, so the stream in the parameters has no effect.
    fn cuGraphInstantiateWithParams_ptsz(
        exec: Out<'_, Handle<Exec>>, graph: Handle<Graph>, params: InOut<'_, InstantiateParams>,
    ) => instantiate_with(&exec, graph, &params);

    fn cuGraphExecUpdate(
        exec: Handle<Exec>, graph: Handle<Graph>, node: Out<'_, Handle<Node>>, result: Out<'_, c_int>,
    ) {
        let (status, how, at) = update(exec, graph);
        node.put_if(at);
        result.put_if(how);
        status
    }

    fn cuGraphExecUpdate_v2(exec: Handle<Exec>, graph: Handle<Graph>, info: Out<'_, UpdateInfo>) {
        let (status, result, node) = update(exec, graph);
        info.put_if(UpdateInfo { result, node, from: Handle::NULL });
        status
    }

    fn cuGraphExecGetFlags(exec: Handle<Exec>, flags: Out<'_, u64>) => flags.put(exec.get()?.flags);

    fn cuGraphNodeSetEnabled(exec: Handle<Exec>, node: Handle<Node>, enabled: c_uint) {
        exec.get()?.with(node, |step| {
            step.enabled = enabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(exec: Handle<Exec>, node: Handle<Node>, enabled: Out<'_, c_uint>)
        => enabled.put(exec.get()?.with(node, |step| Ok(c_uint::from(step.enabled)))?);

    fn cuGraphUpload(exec: Handle<Exec>, stream: Handle<Stream>) ptsz cuGraphUpload_ptsz {
        stream.op_number()?;
        exec.check()?;
        capture::refuse(stream)
    }

    fn cuGraphLaunch(exec: Handle<Exec>, stream: Handle<Stream>) ptsz cuGraphLaunch_ptsz => launch(exec, stream);
    fn cuGraphExecDestroy(exec: Handle<Exec>) => exec.remove();
}
