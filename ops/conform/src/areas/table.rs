//! Checks generated from the table of the API: states, null, sizes, flags, enumerators, devices,
//! handles.

use std::rc::Rc;

use driver_api::{DriverFunction, FUNCTIONS, Object, ParameterRole, State};

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_INITIALIZED, SUCCESS,
};
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Outcome, ensure};
use crate::fixture::Fixture;

/// Undocumented functions, and functions with arguments that only their own checks can make.
const LEFT_OUT: [&str; 3] = ["cuGetExportTable", "cuDeviceGetLuid", "cuMemGetAccess"];

fn functions() -> impl Iterator<Item = &'static DriverFunction> {
    FUNCTIONS
        .iter()
        .filter(|it| !LEFT_OUT.contains(&it.symbol) && !it.symbol.ends_with("_ptsz"))
}

/// The claim, with the function's version if it is v1 of several, v3 or v4, so that claims differ.
fn named(function: &DriverFunction, claim: &str) -> String {
    match function.symbol.strip_prefix(function.base()) {
        Some(version @ ("_v3" | "_v4")) => format!("{claim} ({})", &version[1..]),
        Some("")
            if FUNCTIONS
                .iter()
                .any(|it| it.base() == function.base() && it.symbol != function.symbol) =>
        {
            format!("{claim} (v1)")
        }
        _ => claim.to_owned(),
    }
}

fn check(
    function: &'static DriverFunction,
    claim: &str,
    run: impl Fn(&Bench) -> Outcome + 'static,
) -> Check {
    let of = (function.base(), function.section);
    Check::new(of, named(function, claim), run)
}

/// Checks that each function reports a missing `cuInit`.
pub(super) fn uninitialised() -> Vec<Check> {
    let all = functions().filter(|it| it.state != State::Any);
    all.map(|function| {
        check(function, "before cuInit it says so", |bench| {
            let words = vec![Word::NULL; function.parameters.len()];
            bench.expect(NOT_INITIALIZED, function.symbol, &words)
        })
        .uninitialised()
    })
    .collect()
}

/// Checks that each function reports a missing context.
pub(super) fn without_context() -> Vec<Check> {
    let fixture = Rc::new(Fixture::default());
    let all = functions().filter(|it| it.state == State::Context);
    all.map(|function| {
        let fixture = Rc::clone(&fixture);
        check(
            function,
            "without a current context it says so",
            move |bench| {
                let words = fixture.arguments(bench, function)?;
                let context = bench.made("cuCtxGetCurrent", words![])?;
                bench.ok("cuCtxSetCurrent", words![Word::NULL])?;
                let seen = bench.expect(INVALID_CONTEXT, function.symbol, &words);
                bench.ok("cuCtxSetCurrent", words![context])?;
                seen
            },
        )
    })
    .collect()
}

/// Checks of each parameter of each function for which `make` returns some.
fn of_parameters(
    make: impl Fn(&'static DriverFunction, usize, ParameterRole, &Rc<Fixture>) -> Vec<Check>,
) -> Vec<Check> {
    let fixture = Rc::new(Fixture::default());
    let mut checks = Vec::new();
    for function in functions() {
        for (at, parameter) in function.parameters.iter().enumerate() {
            checks.extend(make(function, at, parameter.role, &fixture));
        }
    }
    checks
}

/// Calls a function with one argument changed.
fn changed(
    bench: &Bench,
    fixture: &Fixture,
    (function, at): (&DriverFunction, usize),
    word: Word,
    codes: &[i32],
) -> Outcome {
    let mut words = fixture.arguments(bench, function)?;
    words[at] = word;
    bench.expect_one_of(codes, function.symbol, &words)
}

/// True if the function reads another structure: it may refuse its zeros before it looks at this
/// argument.
fn reads_structure(function: &DriverFunction, but: usize) -> bool {
    let mut parameters = function.parameters.iter().enumerate();
    parameters.any(|(at, it)| at != but && it.role == ParameterRole::In)
}

/// Checks that null is refused for required pointers.
pub(super) fn nulls() -> Vec<Check> {
    of_parameters(|function, at, role, fixture| {
        let name = function.parameters[at].name;
        let is_pointer = matches!(
            role,
            ParameterRole::Out
                | ParameterRole::In
                | ParameterRole::KernelName
                | ParameterRole::VariableName
                | ParameterRole::Path
                | ParameterRole::Callback
        );
        if !is_pointer {
            return Vec::new();
        }
        let fixture = Rc::clone(fixture);
        let made = check(
            function,
            &format!("null for {name} is refused"),
            move |bench| {
                changed(
                    bench,
                    &fixture,
                    (function, at),
                    Word::NULL,
                    &[INVALID_VALUE],
                )
            },
        );
        vec![match reads_structure(function, at) {
            true => made.uncertain(),
            false => made,
        }]
    })
}

/// Checks that a null handle is refused if it has no meaning of its own.
pub(super) fn handles() -> Vec<Check> {
    of_parameters(|function, at, role, fixture| {
        let ParameterRole::Handle(object) = role else {
            return Vec::new();
        };
        let codes: &[i32] = match object {
            Object::Context => &[INVALID_VALUE, INVALID_CONTEXT],
            _ => &[INVALID_VALUE, INVALID_HANDLE],
        };
        let name = function.parameters[at].name;
        let fixture = Rc::clone(fixture);
        vec![check(
            function,
            &format!("a null {name} is refused"),
            move |bench| changed(bench, &fixture, (function, at), Word::NULL, codes),
        )]
    })
}

/// Checks that sizes of 0 and undefined flags, enumerators and devices are refused.
pub(super) fn values() -> Vec<Check> {
    of_parameters(|function, at, role, fixture| {
        let name = function.parameters[at].name;
        let refused = |claim: String, word: Word, code: i32| {
            let fixture = Rc::clone(fixture);
            check(function, &claim, move |bench| {
                changed(bench, &fixture, (function, at), word, &[code])
            })
        };
        match role {
            ParameterRole::Size => vec![refused(
                format!("0 for {name} is refused"),
                Word(0),
                INVALID_VALUE,
            )],
            ParameterRole::Flags(mask) | ParameterRole::ContextFlags(mask) => {
                let unknown = 1u64 << mask.trailing_ones();
                let claim =
                    format!("the flag {unknown:#x}, which there is not, is refused in {name}");
                vec![refused(claim, Word(unknown), INVALID_VALUE)]
            }
            ParameterRole::OneOf(numbers) => {
                let beyond = numbers.iter().max().map_or(0, |it| it + 1);
                let of = |number: i64| {
                    let claim = format!("{number} is no {name} and refused");
                    refused(claim, number.word(), INVALID_VALUE)
                };
                let below = (!numbers.contains(&0)).then(|| of(0));
                below.into_iter().chain([of(beyond)]).collect()
            }
            ParameterRole::Device => [(-1i64, "-1"), (4096, "4096")]
                .map(|(number, text)| {
                    let claim = format!("{text} for {name} is no device");
                    refused(claim, number.word(), INVALID_DEVICE)
                })
                .into(),
            _ => Vec::new(),
        }
    })
}

/// True if a call with default arguments can be repeated. Some functions destroy, take or need
/// objects of other checks: a successful call would spoil the fixture. Others need arguments that
/// the table cannot provide.
fn is_repeatable(function: &DriverFunction) -> bool {
    !function
        .parameters
        .iter()
        .any(|it| it.role == ParameterRole::In)
        && !function.base().contains("Pop")
        && !function.base().contains("Batch")
}

/// True if all outputs at once are optional: for a variable the manual requires at least one.
fn is_silent(function: &DriverFunction) -> bool {
    !function
        .parameters
        .iter()
        .any(|it| it.role == ParameterRole::VariableName)
}

/// Checks that optional outputs can be omitted, one at a time and all together.
pub(super) fn optional() -> Vec<Check> {
    let fixture = Rc::new(Fixture::default());
    let mut checks = Vec::new();
    for function in functions().filter(|it| is_repeatable(it)) {
        let optional = |role: ParameterRole| role == ParameterRole::OutIf;
        let places = function.parameters.iter().enumerate();
        let places: Vec<usize> = places
            .filter(|(_, it)| optional(it.role))
            .map(|(at, _)| at)
            .collect();
        let several = (places.len() > 1 && is_silent(function)).then(|| places.clone());
        let single = places.iter().map(|at| vec![*at]);
        for without in single.chain(several) {
            let names: Vec<&str> = without
                .iter()
                .map(|at| function.parameters[*at].name)
                .collect();
            let claim = format!("it answers without {}", names.join(", "));
            let fixture = Rc::clone(&fixture);
            let made = check(function, &claim, move |bench| {
                let mut words = fixture.arguments(bench, function)?;
                for at in &without {
                    words[*at] = Word::NULL;
                }
                let seen = bench.code(function.symbol, &words)?;
                ensure!(
                    seen.0 == SUCCESS,
                    "{} gave {seen}, though these answers are optional",
                    function.symbol
                );
                Ok(())
            });
            // The manual names both outputs and does not say that either may be omitted.
            checks.push(match function.base().contains("PotentialBlockSize") {
                true => made.uncertain(),
                false => made,
            });
        }
    }
    checks
}
