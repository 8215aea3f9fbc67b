//! Special registers: the place of a thread, and the device.

use crate::launch::launch;
use crate::vector::Test;
use device_cpu::{EngineConfig, Grid, Program};

const GRID: [u32; 3] = [3, 2, 2];
const BLOCK: [u32; 3] = [5, 4, 3];

/// A thread's place.
#[derive(Clone, Copy)]
struct Place {
    block: [u32; 3],
    thread: [u32; 3],
}

impl Place {
    /// Number in the block.
    fn flat(self) -> u64 {
        let [x, y, z] = self.thread;
        u64::from((z * BLOCK[1] + y) * BLOCK[0] + x)
    }

    fn lane(self) -> u64 {
        self.flat() % 32
    }
}

/// Runs a kernel that stores a register, of 64 bits or fewer, for every thread of the grid.
fn stored(register: &str, ty: &str) -> Vec<(Place, u64)> {
    let wide = if ty == "u64" { "" } else { "cvt.u64.u32 %value, %word;" };
    let target = if ty == "u64" { "%value" } else { "%word" };
    let read = match ty {
        "pred" => format!(".reg .pred %p; mov.pred %p, {register}; selp.u32 %word, 1, 0, %p;"),
        _ => format!("mov.{ty} {target}, {register};"),
    };
    let source = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 base) {{
        .reg .b64 %at, %value, %me; .reg .b32 %word, %x, %y;
        ld.param.u64 %at, [base]; {read} {wide}
        mov.u32 %x, %ctaid.z; mad.lo.u32 %x, %x, {gy}, %ctaid.y; mad.lo.u32 %x, %x, {gx}, %ctaid.x;
        mov.u32 %y, %tid.z; mad.lo.u32 %y, %y, {by}, %tid.y; mad.lo.u32 %y, %y, {bx}, %tid.x;
        mad.lo.u32 %x, %x, {threads}, %y; mul.wide.u32 %me, %x, 8; add.u64 %at, %at, %me;
        st.global.u64 [%at], %value; ret; }}",
        gx = GRID[0],
        gy = GRID[1],
        bx = BLOCK[0],
        by = BLOCK[1],
        threads = BLOCK.iter().product::<u32>(),
    );
    let program = Program::build(&source).unwrap_or_else(|error| panic!("{register}: {error}"));
    let mut places = Vec::new();
    for z in 0..GRID[2] * GRID[1] * GRID[0] {
        for t in 0..BLOCK.iter().product::<u32>() {
            let split = |n: u32, of: [u32; 3]| [n % of[0], n / of[0] % of[1], n / of[0] / of[1]];
            let (block, thread) = (split(z, GRID), split(t, BLOCK));
            places.push(Place { block, thread });
        }
    }
    let grid = Grid {
        grid: GRID,
        block: BLOCK,
        shared: 48,
    };
    let bytes = vec![0; 8 * places.len()];
    let values = launch(&program, EngineConfig::default(), grid, bytes, &[]);
    let values = values.unwrap_or_else(|error| panic!("{register}: {error}"));
    places.into_iter().zip(values).collect()
}

/// A register with a value that follows from the place.
fn place(tests: &mut Vec<Test>, register: String, ty: &'static str, want: impl Fn(Place) -> u64 + 'static) {
    let name = register.clone();
    tests.push(Test::check(vec![name], move || {
        for (place, got) in stored(&register, ty) {
            let (want, flat) = (want(place), place.flat());
            assert_eq!(got, want, "{register} of thread {flat} in {:?}", place.block);
        }
    }));
}

/// A register that only increases, read twice by a thread.
fn clock(tests: &mut Vec<Test>, register: &'static str, ty: &'static str) {
    tests.push(Test::check(vec![register.to_owned()], move || {
        let bits = &ty[1..];
        let source = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 base) {{
            .reg .b64 %at; .reg .b{bits} %one, %two; .reg .pred %p; .reg .b32 %word;
            ld.param.u64 %at, [base]; mov.{ty} %one, {register}; mov.{ty} %two, {register};
            setp.ge.{ty} %p, %two, %one; selp.u32 %word, 1, 2, %p;
            st.global.u32 [%at], %word; ret; }}"
        );
        let program = Program::build(&source).unwrap_or_else(|error| panic!("{register}: {error}"));
        let out = launch(&program, EngineConfig::default(), Grid::flat(1, 1), vec![0; 4], &[]);
        let out: Vec<u32> = out.unwrap_or_else(|error| panic!("{register}: {error}"));
        assert_eq!(out, [1], "{register} went back");
    }));
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let mut add = |register: &str, want: fn(Place, usize) -> u32| {
            place(&mut tests, format!("{register}.{name}"), "u32", move |at| {
                u64::from(want(at, axis))
            });
        };
        add("%tid", |at, axis| at.thread[axis]);
        add("%ntid", |_, axis| BLOCK[axis]);
        add("%ctaid", |at, axis| at.block[axis]);
        add("%nctaid", |_, axis| GRID[axis]);
        // Blocks of a grid without explicit clusters are clusters of one.
        add("%clusterid", |at, axis| at.block[axis]);
        add("%nclusterid", |_, axis| GRID[axis]);
        add("%cluster_ctaid", |_, _| 0);
        add("%cluster_nctaid", |_, _| 1);
    }
    let mut add = |register: &str, ty, want: fn(Place) -> u64| {
        place(&mut tests, register.to_owned(), ty, want);
    };
    add("%cluster_ctarank", "u32", |_| 0);
    add("%cluster_nctarank", "u32", |_| 1);
    add("%is_explicit_cluster", "pred", |_| 0);
    add("%laneid", "u32", Place::lane);
    add("%warpid", "u32", |at| at.flat() / 32);
    add("%nwarpid", "u32", |_| 32);
    add("%smid", "u32", |_| 0);
    add("%nsmid", "u32", |_| 1);
    add("%gridid", "u64", |_| 0);
    add("%lanemask_eq", "u32", |at| 1 << at.lane());
    add("%lanemask_lt", "u32", |at| (1 << at.lane()) - 1);
    add("%lanemask_le", "u32", |at| (2 << at.lane()) - 1);
    add("%lanemask_gt", "u32", |at| 0xffff_ffff & !((2 << at.lane()) - 1));
    add("%lanemask_ge", "u32", |at| 0xffff_ffff & !((1 << at.lane()) - 1));
    add("%dynamic_smem_size", "u32", |_| 48);
    add("%total_smem_size", "u32", |_| 48);
    add("%aggr_smem_size", "u32", |_| 48);
    // The kernels of these tests have no shared memory.
    add("%reserved_smem_offset_begin", "u32", |_| 0);
    add("%reserved_smem_offset_end", "u32", |_| 1024);
    add("%reserved_smem_offset_cap", "u32", |_| 1024);
    add("%reserved_smem_offset_0", "u32", |_| 0);
    add("%reserved_smem_offset_1", "u32", |_| 512);
    add("%envreg0", "u32", |_| 0);
    add("%envreg31", "u32", |_| 0);
    add("%pm0", "u32", |_| 0);
    add("%pm7_64", "u64", |_| 0);
    add("%current_graph_exec", "u64", |_| 0);
    clock(&mut tests, "%clock", "u32");
    clock(&mut tests, "%clock_hi", "u32");
    clock(&mut tests, "%clock64", "u64");
    clock(&mut tests, "%globaltimer", "u64");
    clock(&mut tests, "%globaltimer_lo", "u32");
    clock(&mut tests, "%globaltimer_hi", "u32");
    tests
}
