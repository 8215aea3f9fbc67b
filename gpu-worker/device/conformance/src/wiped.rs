//! Memory that a session has left is zeros to the next. Each session takes all memory, reads it, fills it and
//! leaves, in every possible way.

use std::sync::Arc;

use bus_schemas::{Code, Column, ModuleHash, Op, SessionId, Symbol, limits};
use device::{CopyBytes, Device, SharingDomain};

use crate::kernels::{alloc, copy_in, copy_out, free, set, survives_kernels};
use crate::program::{TestProgram, complete, flat_launch, run};
use crate::swapping::out;

/// `look` notes in `found`, under the piece's number, if there is anything but zeros; `put` writes to every
/// word a value that is never 0. Both take the first address and the one behind the last.
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 4 .b32 found[64];
.visible .global .align 256 .b8 kept[70144];

.visible .entry look(.param .u64 first, .param .u64 end, .param .u64 number)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %a, %end, %x, %all, %n;
    ld.param.u64 %a, [first];
    ld.param.u64 %end, [end];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %n, %r1, 8;
    add.u64 %a, %a, %n;
    mov.u64 %all, 0;
again:
    setp.ge.u64 %p1, %a, %end;
    @%p1 bra over;
    ld.global.u64 %x, [%a];
    or.b64 %all, %all, %x;
    add.u64 %a, %a, 2048;
    bra again;
over:
    setp.eq.u64 %p1, %all, 0;
    @%p1 bra done;
    ld.param.u64 %n, [number];
    shl.b64 %n, %n, 2;
    mov.u64 %a, found;
    add.u64 %a, %a, %n;
    mov.u32 %r2, 1;
    st.global.u32 [%a], %r2;
done:
    ret;
}

.visible .entry put(.param .u64 first, .param .u64 end, .param .u64 value)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %a, %end, %x, %n;
    ld.param.u64 %a, [first];
    ld.param.u64 %end, [end];
    ld.param.u64 %x, [value];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %n, %r1, 8;
    add.u64 %a, %a, %n;
again:
    setp.ge.u64 %p1, %a, %end;
    @%p1 bra done;
    st.global.u64 [%a], %x;
    add.u64 %a, %a, 2048;
    bra again;
done:
    ret;
}
";

const LOOK: u32 = 0;
const PUT: u32 = 1;
/// Number of threads of either kernel; each has every 256th word of eight bytes.
const THREADS: u32 = 256;
/// Bytes of pieces, in turns: no whole pages, of 4 KiB or of 2 MiB.
const PIECES: [u64; 6] = [
    256,
    (4 << 20) - 256,
    70_400,
    (1 << 20) + 256,
    (3 << 20) + 12_544,
    4_352,
];
/// Maximum number of pieces: `found` has room for this many.
const MOST: usize = 64;

/// Bytes at an address of a session.
type Piece = (u64, u64);

/// A session that has all memory of the device.
struct Reader {
    program: TestProgram,
    /// Its allocations.
    allocated: Vec<Piece>,
    /// Its allocations, and the variable that is filled like them.
    pieces: Vec<Piece>,
    /// Address at which a kernel notes what it found.
    found: u64,
}

fn params(piece: Piece, third: u64) -> Vec<u8> {
    let words = [piece.0, piece.0 + piece.1, third];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Divides a range of bytes into pieces, in another way each round.
fn divided(mut address: u64, mut bytes: u64, round: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for next in PIECES.iter().cycle().skip(round as usize % PIECES.len()) {
        // Bytes beyond the last piece's number belong to the last piece.
        let rest = pieces.len() + 2 == MOST;
        let piece = if rest { bytes } else { bytes.min(*next) };
        pieces.push((address, piece));
        (address, bytes) = (address + piece, bytes - piece);
        if bytes == 0 {
            break;
        }
    }
    pieces
}

impl Reader {
    /// Takes all memory of the device.
    fn takes_all(device: &mut dyn Device, mut program: TestProgram, round: u64) -> Self {
        let hash = ModuleHash::of(PTX.as_bytes());
        let module = device.prepare(hash, PTX.as_bytes()).expect("it builds");
        let all = device.info().capacity - module.variables.next_multiple_of(256);
        let allocated = divided(program.window().base, all, round);
        let mut ops: Vec<(Op, &[u8])> = vec![
            (Op::LoadModule { slot: 0, hash }, &[]),
            (Op::Symbols { slot: 0 }, &[]),
        ];
        ops.extend(allocated.iter().map(|piece| alloc(piece.0, piece.1)));
        let rows = run(device, &mut program, &ops).results[0].copied();
        let rows = rows.expect("rows");
        let rows: Vec<Symbol> = Column::new(&rows).expect("whole rows").iter().collect();
        let (found, kept) = (rows[0], rows[1]);
        assert_eq!((found.bytes, kept.bytes), (4 * MOST as u64, 70_144));
        let mut pieces = allocated.clone();
        pieces.push((kept.address, kept.bytes));
        Self {
            program,
            allocated,
            pieces,
            found: found.address,
        }
    }

    /// Number of pieces that are not all zeros. A kernel looks at every second piece, and a copy to the host
    /// at the others. At the next turn it is the other way round.
    fn looks(&mut self, device: &mut dyn Device, turn: u64) -> usize {
        let numbered = self.pieces.iter().zip(0_u64..);
        let params: Vec<_> = numbered.map(|(piece, n)| params(*piece, n)).collect();
        let (mut ops, mut copies) = (Vec::<(Op, &[u8])>::new(), Vec::new());
        for ((piece, params), n) in self.pieces.iter().zip(&params).zip(turn..) {
            match n % 2 {
                0 => ops.push((flat_launch(LOOK, 1, THREADS), &params[..])),
                _ => copies.push(copy_out(piece.0, piece.1)),
            }
        }
        ops.push(copy_out(self.found, 4 * MOST as u64));
        let found = run(device, &mut self.program, &ops).results[0].copied();
        let found = found.expect("what kernels found");
        let found = found.as_chunks::<4>().0.iter();
        let seen = found.filter(|word| **word != [0; 4]).count();
        let zeros = vec![0; limits::CHUNK_BYTES];
        let full = |copy: &&(Op, &'static [u8])| {
            let mut done = run(device, &mut self.program, &[**copy]);
            let bytes = done.results.remove(0).bytes.expect("bytes");
            let mut slices = bytes.slices(0, bytes.len());
            let full = slices.any(|slice| *slice != zeros[..slice.len()]);
            drop(slices);
            if let Some(spares) = device.spares() {
                spares.lock().expect("spares").take_apart(bytes);
            }
            full
        };
        seen + copies.iter().filter(full).count()
    }

    /// Fills all its memory, by kernels, fills and copies from the host, in another way each round.
    fn fills(&mut self, device: &mut dyn Device, round: u64) {
        let value = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let params: Vec<_> = self.pieces.iter().map(|it| params(*it, value)).collect();
        let (mut ops, mut transfers) = (Vec::<(Op, &[u8])>::new(), Vec::new());
        for ((piece, params), n) in self.pieces.iter().zip(&params).zip(round..) {
            let (address, bytes) = *piece;
            ops.push(match n % 3 {
                0 => (flat_launch(PUT, 1, THREADS), &params[..]),
                1 => set(address, bytes / 4, value as u32, 4),
                _ => {
                    let staged = value.to_le_bytes().repeat(bytes as usize / 8);
                    transfers.push((n + 1, Arc::new(CopyBytes::from(&staged[..]))));
                    (copy_in(address, bytes, n + 1), &[])
                }
            });
        }
        let mut slice = self.program.slice(&ops);
        slice.transfers = transfers;
        assert_eq!(complete(device, slice).fault, None);
    }

    /// Runs an op that must fail, as the session's last.
    fn fails(&mut self, device: &mut dyn Device, op: (Op, &[u8]), code: Code) {
        let slice = self.program.slice(&[op]);
        let fault = complete(device, slice).fault.map(|(_, why)| why.code);
        assert_eq!(fault, Some(code));
    }

    /// Frees all its memory.
    fn frees(mut self, device: &mut dyn Device) -> TestProgram {
        let pieces = self.allocated.iter();
        let mut ops: Vec<_> = pieces.map(|piece| free(piece.0)).collect();
        ops.push((Op::UnloadModule { slot: 0 }, &[]));
        let done = run(device, &mut self.program, &ops);
        assert_eq!(done.resident, 0);
        self.program
    }
}

/// Three sessions in turns; one may be out.
#[derive(Default)]
struct Sessions {
    /// Sessions that are open and have no memory.
    waiting: [Option<TestProgram>; 3],
    out: Option<SessionId>,
}

impl Sessions {
    fn next(&mut self, device: &mut dyn Device, round: u64) -> TestProgram {
        if let Some(program) = self.waiting[round as usize % 3].take() {
            return program;
        }
        let program = TestProgram::new(1 + round % 3);
        // Every second time it may share, but only with itself.
        let domain = round.is_multiple_of(2);
        let domain = domain.then_some(SharingDomain(1 + round % 3));
        let opened = device.open(program.session(), program.window(), domain);
        opened.expect("a free window");
        program
    }

    /// The reader leaves in one of the ways; the session before it has then left as well.
    fn leaves(&mut self, device: &mut dyn Device, mut reader: Reader, round: u64) {
        let session = reader.program.session();
        let noted = set(reader.found, MOST as u64, 1, 4);
        run(device, &mut reader.program, &[noted]);
        // That session was out while this one had all memory.
        if let Some(session) = self.out.take() {
            device.close(session);
        }
        let behind = reader.program.window().base + (4 << 30);
        let stray = params((behind, 8), 7);
        match round % 5 {
            0 => self.waiting[round as usize % 3] = Some(reader.frees(device)),
            1 if device.swap_use().is_some() => {
                out(device, session);
                self.out = Some(session);
            }
            2 if survives_kernels(device) => {
                let op = (flat_launch(PUT, 1, THREADS), &stray[..]);
                reader.fails(device, op, Code::IllegalAddress);
                device.close(session);
            }
            3 => {
                // No memory is left: the reader had all.
                reader.fails(device, alloc(behind, 1), Code::OutOfMemory);
                device.close(session);
            }
            _ => device.close(session),
        }
    }
}

/// Runs this many sessions, each of which takes all memory of a fresh device in turn and finds only zeros in
/// it. The device has 64 MiB; its swap space, if any, has room for a little more, in two parts.
///
/// # Panics
/// When a session finds bytes of another, with the round.
pub fn wiped(device: &mut dyn Device, rounds: u64) {
    assert_eq!(device.info().capacity, 64 << 20);
    let mut sessions = Sessions::default();
    for round in 1..=rounds {
        let program = sessions.next(device, round);
        let mut reader = Reader::takes_all(device, program, round);
        let left = reader.looks(device, round);
        assert_eq!(left, 0, "pieces that others left, round {round}");
        reader.fills(device, round);
        if round <= 2 {
            // The test can fail: a session's own bytes are found by both ways of looking.
            let found = reader.looks(device, round);
            assert_eq!(found, reader.pieces.len());
        }
        sessions.leaves(device, reader, round);
    }
}
