//! Graphs: nodes, dependencies, launches, updates.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE, SUCCESS};
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Finding, Outcome, ensure};

const GRAPHS: &str = "Graph Management";

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct KernelNode {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    _pad: u32,
    parameters: u64,
    extra: u64,
    kernel: u64,
    context: u64,
}

fn graph(bench: &Bench, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    let graph = bench.made("cuGraphCreate", words![0u32])?;
    let seen = body(graph);
    bench.ok("cuGraphDestroy", words![graph])?;
    seen
}

fn empty(bench: &Bench, graph: u64, after: &[u64]) -> Result<u64, Finding> {
    bench.made("cuGraphAddEmptyNode", words![graph, after, after.len()])
}

fn count(bench: &Bench, symbol: &str, of: u64) -> Result<usize, Finding> {
    let mut count = 0usize;
    bench.ok(symbol, words![of, Word::NULL, &mut count])?;
    Ok(count)
}

/// A node that fills `count` words at an address with a value.
fn fill(bench: &Bench, graph: u64, after: &[u64], parameters: &[u64; 3]) -> Result<u64, Finding> {
    let places = parameters.each_ref().map(|it| it.word().0);
    let node = KernelNode {
        function: bench.kernel(c"fill")?,
        grid: [1; 3],
        block: [64, 1, 1],
        parameters: (&places).word().0,
        ..KernelNode::default()
    };
    bench.made(
        "cuGraphAddKernelNode_v2",
        words![graph, after, after.len(), &node],
    )
}

fn launched(bench: &Bench, graph: u64) -> Outcome {
    let exec = bench.made("cuGraphInstantiateWithFlags", words![graph, 0u64])?;
    let seen = bench
        .ok("cuGraphLaunch", words![exec, Word::NULL])
        .and_then(|()| bench.sync());
    bench.ok("cuGraphExecDestroy", words![exec])?;
    seen
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, GRAPHS);
    vec![
        Check::new(
            of("cuGraphGetNodes"),
            "nodes, roots and edges are what was added",
            |it| {
                graph(it, |graph| {
                    let first = empty(it, graph, &[])?;
                    let second = empty(it, graph, &[first])?;
                    empty(it, graph, &[first, second])?;
                    let mut edges = 0usize;
                    it.ok(
                        "cuGraphGetEdges",
                        words![graph, Word::NULL, Word::NULL, &mut edges],
                    )?;
                    let seen = (
                        count(it, "cuGraphGetNodes", graph)?,
                        count(it, "cuGraphGetRootNodes", graph)?,
                        edges,
                    );
                    ensure!(seen == (3, 1, 3), "{seen:?}");
                    let seen = (
                        count(it, "cuGraphNodeGetDependencies", second)?,
                        count(it, "cuGraphNodeGetDependentNodes", first)?,
                    );
                    ensure!(seen == (1, 2), "{seen:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphGetNodes"),
            "a list with room gets zeros behind the last",
            |it| {
                graph(it, |graph| {
                    let node = empty(it, graph, &[])?;
                    let (mut list, mut room) = ([9u64; 4], 3usize);
                    it.ok("cuGraphGetNodes", words![graph, &mut list, &mut room])?;
                    ensure!((list, room) == ([node, 0, 0, 9], 1), "{list:x?}, {room}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphAddEmptyNode"),
            "a dependency named twice is refused",
            |it| {
                graph(it, |graph| {
                    let (first, mut node) = (empty(it, graph, &[])?, 0u64);
                    it.expect(
                        INVALID_VALUE,
                        "cuGraphAddEmptyNode",
                        words![&mut node, graph, &[first, first], 2usize],
                    )
                })
            },
        ),
        Check::new(
            of("cuGraphAddDependencies"),
            "a node does not depend on itself",
            |it| {
                graph(it, |graph| {
                    let node = [empty(it, graph, &[])?];
                    it.expect(
                        INVALID_VALUE,
                        "cuGraphAddDependencies",
                        words![graph, &node, &node, 1usize],
                    )
                })
            },
        )
        .uncertain(),
        Check::new(of("cuGraphInstantiate"), "a circle is refused", |it| {
            graph(it, |graph| {
                let first = [empty(it, graph, &[])?];
                let second = [empty(it, graph, &first)?];
                let added = it.code(
                    "cuGraphAddDependencies",
                    words![graph, &second, &first, 1usize],
                )?;
                let mut exec = 0u64;
                let made = it.code(
                    "cuGraphInstantiateWithFlags",
                    words![&mut exec, graph, 0u64],
                )?;
                ensure!(
                    added.0 != SUCCESS || made.0 != SUCCESS,
                    "a circle was instantiated"
                );
                Ok(())
            })
        }),
        Check::new(
            of("cuGraphRemoveDependencies"),
            "an edge that there is not cannot be removed",
            |it| {
                graph(it, |graph| {
                    let (first, second) = ([empty(it, graph, &[])?], [empty(it, graph, &[])?]);
                    it.expect(
                        INVALID_VALUE,
                        "cuGraphRemoveDependencies",
                        words![graph, &first, &second, 1usize],
                    )
                })
            },
        ),
        Check::new(
            of("cuGraphLaunch"),
            "nodes run in the order of their dependencies",
            |it| {
                let to = it.alloc(256)?;
                graph(it, |graph| {
                    let first = fill(it, graph, &[], &[to, 1, 64])?;
                    let second = fill(it, graph, &[first], &[to, 2, 32])?;
                    fill(it, graph, &[second], &[to, 3, 16])?;
                    launched(it, graph)?;
                    let seen = it.read::<u32>(to, 64)?;
                    ensure!(
                        (seen[0], seen[16], seen[32]) == (3, 2, 1),
                        "{} {} {}",
                        seen[0],
                        seen[16],
                        seen[32]
                    );
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphAddKernelNode"),
            "parameters are read when the node is added",
            |it| {
                let to = it.alloc(256)?;
                graph(it, |graph| {
                    let mut parameters = [to, 4, 64];
                    fill(it, graph, &[], &parameters)?;
                    parameters.fill(0);
                    launched(it, graph)?;
                    let seen = it.read::<u32>(to, 64)?;
                    ensure!(parameters == [0; 3] && seen == [4; 64], "{seen:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphClone"),
            "a copy has nodes of its own, which are found by the original's",
            |it| {
                graph(it, |graph| {
                    let node = empty(it, graph, &[])?;
                    let copy = it.made("cuGraphClone", words![graph])?;
                    let found = it.made("cuGraphNodeFindInClone", words![node, copy]);
                    it.ok("cuGraphDestroy", words![copy])?;
                    ensure!(found? != node, "it is the same node");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphAddChildGraphNode"),
            "a child is copied when it is added",
            |it| {
                let to = it.alloc(256)?;
                graph(it, |parent| {
                    graph(it, |child| {
                        fill(it, child, &[], &[to, 8, 64])?;
                        it.made(
                            "cuGraphAddChildGraphNode",
                            words![parent, Word::NULL, 0usize, child],
                        )?;
                        fill(it, child, &[], &[to, 9, 64])?;
                        Ok(())
                    })?;
                    launched(it, parent)?;
                    let seen = it.read::<u32>(to, 64)?;
                    ensure!(seen == [8; 64], "{}", seen[0]);
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphExecUpdate"),
            "parameters are updated from a graph of the same shape",
            |it| {
                let to = it.alloc(256)?;
                graph(it, |one| {
                    fill(it, one, &[], &[to, 1, 64])?;
                    let exec = it.made("cuGraphInstantiateWithFlags", words![one, 0u64])?;
                    let seen = graph(it, |other| {
                        fill(it, other, &[], &[to, 2, 64])?;
                        let mut info = [0u64; 3];
                        it.ok("cuGraphExecUpdate_v2", words![exec, other, &mut info])
                    });
                    it.ok("cuGraphLaunch", words![exec, Word::NULL])?;
                    it.sync()?;
                    it.ok("cuGraphExecDestroy", words![exec])?;
                    seen?;
                    let seen = it.read::<u32>(to, 64)?;
                    ensure!(seen == [2; 64], "{}", seen[0]);
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphExecUpdate"),
            "a graph of another shape is refused",
            |it| {
                graph(it, |one| {
                    empty(it, one, &[])?;
                    let exec = it.made("cuGraphInstantiateWithFlags", words![one, 0u64])?;
                    let seen = graph(it, |other| {
                        empty(it, other, &[])?;
                        empty(it, other, &[])?;
                        let mut info = [0u64; 3];
                        it.expect(
                            GRAPH_EXEC_UPDATE_FAILURE,
                            "cuGraphExecUpdate_v2",
                            words![exec, other, &mut info],
                        )
                    });
                    it.ok("cuGraphExecDestroy", words![exec])?;
                    seen
                })
            },
        ),
        Check::new(
            of("cuGraphNodeSetEnabled"),
            "a node that is disabled does not run",
            |it| {
                let to = it.alloc(256)?;
                it.ok("cuMemsetD32_v2", words![to, 0u32, 64usize])?;
                graph(it, |graph| {
                    let node = fill(it, graph, &[], &[to, 1, 64])?;
                    let exec = it.made("cuGraphInstantiateWithFlags", words![graph, 0u64])?;
                    let seen = (|| {
                        it.ok("cuGraphNodeSetEnabled", words![exec, node, 0u32])?;
                        it.ok("cuGraphLaunch", words![exec, Word::NULL])?;
                        it.sync()?;
                        let without = it.read::<u32>(to, 1)?;
                        it.ok("cuGraphNodeSetEnabled", words![exec, node, 1u32])?;
                        it.ok("cuGraphLaunch", words![exec, Word::NULL])?;
                        it.sync()?;
                        Ok((without, it.read::<u32>(to, 1)?))
                    })();
                    it.ok("cuGraphExecDestroy", words![exec])?;
                    let (without, with): (Vec<u32>, Vec<u32>) = seen?;
                    ensure!(without == [0] && with == [1], "{without:?}, then {with:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuGraphInstantiate"),
            "an executable graph outlives its graph",
            |it| {
                let to = it.alloc(256)?;
                let mut exec = 0u64;
                graph(it, |graph| {
                    fill(it, graph, &[], &[to, 6, 64])?;
                    exec = it.made("cuGraphInstantiateWithFlags", words![graph, 0u64])?;
                    Ok(())
                })?;
                it.ok("cuGraphLaunch", words![exec, Word::NULL])?;
                it.sync()?;
                it.ok("cuGraphExecDestroy", words![exec])?;
                let seen = it.read::<u32>(to, 64)?;
                ensure!(seen == [6; 64], "{}", seen[0]);
                Ok(())
            },
        ),
    ]
}
