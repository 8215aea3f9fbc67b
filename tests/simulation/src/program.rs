//! Model programs: what a client does with its sessions, drawn from the seed.

use bus_schemas::{Launch, ModuleHash, Op};
use bytes::Bytes;

use crate::device::FAULTY;
use virtual_time::Random;
use virtual_time::{MICRO, MILLI, Nanos, SECOND};

/// How a session behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Honest,
    /// Its launch at this step of the script fails on the device.
    Faulty,
    /// From this op on it announces other costs than its ops have.
    Liar(u64),
    /// From this op on it announces ops and never sends them.
    Mute(u64),
}

/// One step of a session's program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Push an op with a payload.
    Op(Op, u16, Vec<u8>),
    /// Allocate so many bytes.
    Alloc(u64),
    /// Free the oldest allocation.
    Free,
    /// Copy that many bytes to the device, staged.
    Staged(u32),
    /// Stage a module's image of that many bytes and load it into a slot.
    Load(u32, u32),
    /// Wait for all answers asked for so far.
    Wait,
    /// Do nothing for a while.
    Think(Nanos),
    /// End the session.
    Close,
}

/// One session of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    /// When it asks for its session.
    pub start: Nanos,
    /// How it behaves.
    pub conduct: Conduct,
    /// What it does.
    pub steps: Vec<Step>,
}

/// What one client process does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Its sessions.
    pub programs: Vec<Program>,
    /// When the process dies, if it does, and whether the broker tells.
    pub dies: Option<(Nanos, bool)>,
}

/// A client's plan. `length` is the virtual time its work should stretch over; `unruly` allows
/// conduct that is not honest, and deaths; `crowded`: all begin at once and rest seldom.
#[must_use]
pub(crate) fn plan(random: &mut Random, length: Nanos, unruly: bool, crowded: bool) -> Plan {
    let count = 1 + random.index(3);
    let mut programs: Vec<Program> = (0..count)
        .map(|_| program(random, length, unruly, crowded))
        .collect();
    let mute = programs
        .iter()
        .any(|program| matches!(program.conduct, Conduct::Mute(_)));
    // Told or not, but a silent one mostly told: else the run lasts the whole expiry.
    let dies = (mute || unruly && random.chance(120))
        .then(|| (random.between(length / 8, length), random.chance(850)));
    if random.chance(100) {
        programs.truncate(1);
    }
    Plan { programs, dies }
}

fn program(random: &mut Random, length: Nanos, unruly: bool, crowded: bool) -> Program {
    let conduct = match random.between(0, 19) {
        0 if unruly => Conduct::Faulty,
        1 if unruly => Conduct::Liar(random.between(3, 60)),
        2 if unruly => Conduct::Mute(random.between(3, 60)),
        _ => Conduct::Honest,
    };
    let mut steps = vec![Step::Load(0, image(random)), Step::Alloc(4096)];
    let bursts = 1 + random.index(12);
    let pause = length / bursts as u64;
    let dense = crowded || random.chance(250);
    for _ in 0..bursts {
        burst(random, &mut steps);
        if !dense {
            steps.push(Step::Think(random.between(0, pause)));
        }
    }
    if conduct == Conduct::Faulty {
        let at = steps.len().saturating_sub(random.index(4) + 1).max(1);
        steps.insert(at, Step::Op(launch(random, FAULTY), 0, vec![]));
    }
    steps.extend([Step::Op(Op::Sync, 0, vec![]), Step::Wait]);
    if random.chance(950) {
        steps.push(Step::Close);
    }
    Program {
        start: random.between(0, if crowded { 5 * MILLI } else { length / 3 }),
        conduct,
        steps,
    }
}

fn image(random: &mut Random) -> u32 {
    let most = if random.chance(200) {
        400 << 10
    } else {
        8 << 10
    };
    random.between(1, most) as u32
}

fn burst(random: &mut Random, steps: &mut Vec<Step>) {
    let ops = match random.between(0, 19) {
        0 => random.between(200, 1500),
        1..=4 => random.between(20, 120),
        _ => random.between(1, 20),
    };
    for _ in 0..ops {
        steps.push(step(random));
    }
    if random.chance(150) {
        steps.push(Step::Staged(random.between(17 << 10, 600 << 10) as u32));
    }
    if random.chance(60) {
        steps.push(Step::Load(random.between(0, 2) as u32, image(random)));
    }
    match random.between(0, 9) {
        0..=2 => steps.push(Step::Op(Op::Sync, 0, vec![])),
        3..=7 => steps.push(read(random)),
        _ => {}
    }
    if random.chance(600) {
        steps.push(Step::Wait);
    }
}

fn step(random: &mut Random) -> Step {
    let stream = random.between(0, 2) as u16;
    let op = match random.between(0, 29) {
        0 => return Step::Alloc(random.between(1, 1 << 16)),
        1 => return Step::Free,
        2 => {
            let size = random.between(1, 300);
            let op = Op::CopyIn {
                address: 0,
                bytes: size,
                transfer: 0,
            };
            let fill = random.draw() as u8;
            return Step::Op(op, stream, vec![fill; size as usize]);
        }
        3 => Op::Set {
            address: 0,
            count: random.between(1, 1024),
            value: random.draw() as u32,
            width: 1,
        },
        4 => Op::Event {
            event: random.between(0, 7) as u32,
            timed: false,
        },
        5 => Op::Copy {
            to: 0,
            from: 512,
            bytes: random.between(1, 512),
        },
        _ => {
            let function = random.between(0, 9) as u32;
            let params = vec![random.draw() as u8; 16];
            return Step::Op(launch(random, function), stream, params);
        }
    };
    Step::Op(op, stream, vec![])
}

fn launch(random: &mut Random, function: u32) -> Op {
    Op::Launch(Launch {
        module: 0,
        function,
        grid: [1 + random.between(0, 2) as u32, 1, 1],
        block: [32, 1, 1],
        shared: 0,
    })
}

fn read(random: &mut Random) -> Step {
    let bytes = if random.chance(40) {
        random.between(1, 600 << 10)
    } else {
        random.between(1, 200)
    };
    Step::Op(Op::CopyOut { address: 0, bytes }, 0, vec![])
}

/// A transfer's bytes: some of them vary.
#[must_use]
pub(crate) fn staged_bytes(random: &mut Random, bytes: u32) -> Bytes {
    let mut content = vec![0x5a; bytes as usize];
    let mark = random.draw().to_le_bytes();
    let end = mark.len().min(content.len());
    content[..end].copy_from_slice(&mark[..end]);
    content.into()
}

/// A module's image and its hash. A tenant's sessions share a few images by number.
#[must_use]
pub(crate) fn module(bytes: u32, salt: u64) -> (Bytes, ModuleHash) {
    let mut content = vec![0xa5; bytes.max(8) as usize];
    content[..8].copy_from_slice(&(salt % 3).to_le_bytes());
    let hash = ModuleHash::of(&content);
    (content.into(), hash)
}

/// How long a client waits before it repeats a request that got no answer.
pub(crate) const REQUEST_AGAIN: Nanos = 400 * MILLI;
/// How often a client says that its sessions live.
pub(crate) const ALIVE_EVERY: Nanos = 10 * SECOND;
/// How long a client lets its program rest when the outbox has no room.
pub(crate) const FULL_WAIT: Nanos = 500 * MICRO;
