//! Sessions of different urgency with work under way at the same time. Each reads the bytes that it would
//! read alone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{Op, limits};
use device::{CopyBytes, Device};

use crate::kernels::{PTX, alloc, copy, copy_in, copy_out, free, increment_params, launch, set};
use crate::program::TestProgram;

/// Words of each session's memory.
const WORDS: usize = 700_000;
/// Number of words that kernels reach.
const REACHED: u32 = 4_096;
/// Offset at which it allocates and frees, behind its memory.
const APART: u64 = 64 << 20;

/// Pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// One session, and the expected content of its memory.
struct Tenant {
    program: TestProgram,
    words: Vec<u32>,
    /// Size of its other allocation, and the byte that fills it.
    apart: Option<(u64, u8)>,
    /// For each slice under way: its number of launches, and the bytes that it must read.
    wanted: VecDeque<(u64, Vec<Vec<u8>>)>,
}

/// A slice in the making.
#[derive(Default)]
struct Draft {
    ops: Vec<(Op, Vec<u8>)>,
    transfers: Vec<(u64, Arc<CopyBytes>)>,
    launches: u64,
    wanted: Vec<Vec<u8>>,
}

impl Draft {
    fn push(&mut self, (op, payload): (Op, &[u8])) {
        self.ops.push((op, payload.to_vec()));
    }
}

impl Tenant {
    fn opened(device: &mut dyn Device, n: u64) -> Self {
        let (program, load) = TestProgram::opened(device, n, PTX);
        let mut program = program.at((n % 5) as u8);
        let begin = program.slice(&[(load, &[]), alloc(program.window().base, 4 * WORDS as u64)]);
        device.submit(begin);
        Self {
            program,
            words: vec![0; WORDS],
            apart: None,
            wanted: VecDeque::from([(0, Vec::new())]),
        }
    }

    /// Adds one op, or some launches.
    fn adds(&mut self, draft: &mut Draft, numbers: &mut Numbers) {
        let base = self.program.window().base;
        let at = |word: usize| base + 4 * word as u64;
        let first = numbers.below(WORDS);
        let most = [8, 3_000, WORDS][numbers.below(3)];
        let count = 1 + numbers.below(most.min(WORDS - first));
        let value = numbers.below(1 << 30) as u32;
        match numbers.below(12) {
            0..=4 => {
                for _ in 0..=numbers.below(8) {
                    let n = 1 + numbers.below(REACHED as usize) as u32;
                    draft.push((launch(0, n), &increment_params(base, n)));
                    draft.launches += 1;
                    let reached = self.words.iter_mut().take(n as usize);
                    reached.for_each(|word| *word = word.wrapping_add(1));
                }
            }
            5 | 6 => {
                let new: Vec<u32> = (0..count as u32).map(|n| value.wrapping_add(n)).collect();
                let (inline, len) = (4 * count <= limits::INLINE_BYTES / 4, 4 * count as u64);
                let transfer = if inline {
                    0
                } else {
                    draft.ops.len() as u64 + 1
                };
                let sent = if inline { bytes(&new) } else { Vec::new() };
                draft.push((copy_in(at(first), len, transfer), &sent));
                if !inline {
                    let staged = CopyBytes::from(&bytes(&new)[..]);
                    draft.transfers.push((transfer, Arc::new(staged)));
                }
                self.words[first..first + count].copy_from_slice(&new);
            }
            7 => {
                draft.push(set(at(first), count as u64, value, 4));
                self.words[first..first + count].fill(value);
            }
            8 => {
                let to = numbers.below(WORDS - count);
                let apart = to + count <= first || first + count <= to;
                if apart {
                    draft.push(copy(at(to), at(first), 4 * count as u64));
                    self.words.copy_within(first..first + count, to);
                }
            }
            9 => self.comes_and_goes(draft, numbers),
            _ => {
                draft.push(copy_out(at(first), 4 * count as u64));
                draft.wanted.push(bytes(&self.words[first..first + count]));
            }
        }
    }

    /// Allocates memory apart and fills it, or frees it. It may allocate the memory anew at once; then that
    /// holds zeros.
    fn comes_and_goes(&mut self, draft: &mut Draft, numbers: &mut Numbers) {
        let address = self.program.window().base + APART;
        if let Some((bytes, value)) = self.apart.take() {
            let read = bytes.min(256);
            draft.push(copy_out(address + bytes - read, read));
            draft.wanted.push(vec![value; read as usize]);
            draft.push(free(address));
            if numbers.below(3) == 0 {
                return;
            }
        }
        let bytes = 1 + numbers.below(5 << 20) as u64;
        let value = 1 + numbers.below(255) as u8;
        draft.push(alloc(address, bytes));
        let read = bytes.min(256);
        draft.push(copy_out(address + bytes - read, read));
        draft.wanted.push(vec![0; read as usize]);
        draft.push(set(address, bytes, u32::from(value), 1));
        self.apart = Some((bytes, value));
    }

    fn submits(&mut self, device: &mut dyn Device, numbers: &mut Numbers) {
        let mut draft = Draft::default();
        for _ in 0..=numbers.below(6) {
            self.adds(&mut draft, numbers);
        }
        let ops: Vec<_> = draft
            .ops
            .iter()
            .map(|(op, sent)| (*op, &sent[..]))
            .collect();
        let mut slice = self.program.slice(&ops);
        slice.transfers = draft.transfers;
        device.submit(slice);
        self.wanted.push_back((draft.launches, draft.wanted));
    }
}

/// Compares the answers of completed slices.
fn looks(device: &mut dyn Device, tenants: &mut [Tenant], budget: Duration) {
    let mut done = Vec::new();
    device.poll(budget, &mut done);
    for it in done {
        assert_eq!(it.fault, None, "{:?} at {}", it.session, it.position);
        let mut tenants = tenants.iter_mut();
        let tenant = tenants.find(|tenant| tenant.program.session() == it.session);
        let wanted = tenant.and_then(|tenant| tenant.wanted.pop_front());
        let (launches, wanted) = wanted.expect("a slice under way");
        let counted = it.kernels.iter().map(|kernel| kernel.count).sum();
        assert_eq!((it.launches, launches), (launches, counted));
        let took: u64 = it.kernels.iter().map(|kernel| kernel.total_ns).sum();
        assert!(took <= it.device_ns, "{took} of {}", it.device_ns);
        assert_eq!(it.results.len(), wanted.len());
        for (result, wanted) in it.results.iter().zip(wanted) {
            assert!(
                result.copied() == Some(wanted),
                "op {} of {:?}",
                result.op,
                it.session
            );
        }
    }
}

/// Runs five sessions, from the most to the least urgent, with `slices` slices each and up to some dozen
/// under way. Each reads the bytes that it would read alone. The device is fresh.
///
/// # Panics
/// When a session reads other bytes.
pub fn mixed(device: &mut dyn Device, slices: usize) {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut tenants: Vec<_> = (1..=5).map(|n| Tenant::opened(device, n)).collect();
    for _ in 0..5 * slices {
        let index = numbers.below(tenants.len());
        if tenants[index].wanted.len() < 12 {
            tenants[index].submits(device, &mut numbers);
        }
        for _ in 0..numbers.below(3) {
            looks(device, &mut tenants, Duration::from_micros(5));
        }
    }
    let until = Instant::now() + Duration::from_secs(60);
    while tenants.iter().any(|tenant| !tenant.wanted.is_empty()) {
        assert!(Instant::now() < until, "a slice hangs");
        looks(device, &mut tenants, Duration::from_millis(1));
    }
    assert!(!device.is_busy());
    for tenant in &tenants {
        device.close(tenant.program.session());
    }
}
