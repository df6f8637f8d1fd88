//! Reading what `ptxas -v` says.

use crate::TargetError;

/// What ptxas says of a kernel. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct KernelFigures {
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    pub barriers: u32,
    pub stack: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
    /// Static shared memory.
    pub shared_memory: u32,
    /// Constant memory of all banks, parameters included.
    pub constant_memory: u32,
}

/// What ptxas says of a function that it did not inline. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FunctionFigures {
    pub name: String,
    pub stack: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Severity {
    Info,
    Warning,
    Error,
    Fatal,
}

/// A message of ptxas other than its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How much it matters.
    pub severity: Severity,
    /// Line of the PTX.
    pub line: Option<u32>,
    /// `C7510`.
    pub code: Option<String>,
    /// The text without severity, line and code.
    pub text: String,
}

impl Message {
    /// Whether ptxas says that it gave performance away: codes C75xx, such as wgmma that it serialised or waits that it inserted.
    pub fn is_performance_loss(&self) -> bool {
        self.code.as_ref().is_some_and(|code| code.starts_with("C75"))
    }
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(code) = &self.code {
            write!(f, "({code}) ")?;
        }
        f.write_str(&self.text)
    }
}

/// What ptxas said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) kernels: Vec<KernelFigures>,
    pub(super) functions: Vec<FunctionFigures>,
    pub(super) messages: Vec<Message>,
}

/// Reads a report; lines that are no figures are messages. E0610 for figures that are not understood.
pub(super) fn read(text: &str) -> Result<Report, TargetError> {
    let mut report = Report::default();
    // The function whose properties follow.
    let mut function: Option<String> = None;
    // Kernels whose registers were stated.
    let mut complete = 0;
    for line in text.lines() {
        if line.starts_with(char::is_whitespace) {
            let name = function.take();
            if name.is_some() || line.contains("stack frame") {
                frame(&mut report, name, line)?;
            }
            continue;
        }
        let Some(message) = message(line) else {
            if !line.is_empty() {
                report.messages.push(Message {
                    severity: Severity::Info,
                    line: None,
                    code: None,
                    text: line.to_owned(),
                });
            }
            continue;
        };
        let text = message.text.as_str();
        if let Some(rest) = text.strip_prefix("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            report.kernels.push(KernelFigures { name, ..KernelFigures::default() });
        } else if let Some(name) = text.strip_prefix("Function properties for ") {
            function = Some(name.trim().to_owned());
        } else if let Some(rest) = text.strip_prefix("Used ") {
            let kernel = report.kernels.last_mut().ok_or_else(|| wrong("registers before any kernel", line))?;
            used(kernel, rest).ok_or_else(|| wrong("unknown figures", line))?;
            complete += 1;
        } else if text.starts_with("Compile time") || text.contains(" bytes gmem") {
            // Of no interest to any kernel.
        } else {
            report.messages.push(message);
        }
    }
    if complete != report.kernels.len() {
        let reason = format!("{} kernels, but the registers of {complete}", report.kernels.len());
        return Err(TargetError::PtxasReport { reason });
    }
    Ok(report)
}

fn wrong(reason: &str, line: &str) -> TargetError {
    let line: String = line.chars().take(200).collect();
    TargetError::PtxasReport { reason: format!("{reason} in `{line}`") }
}

/// `    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`, of a kernel or of another function.
fn frame(report: &mut Report, name: Option<String>, line: &str) -> Result<(), TargetError> {
    let (mut stack, mut spill_stores, mut spill_loads) = (None, None, None);
    for part in line.split(',') {
        let (bytes, what) = part.trim().split_once(" bytes ").ok_or_else(|| wrong("unknown figures", line))?;
        let bytes = bytes.parse::<u32>().map_err(|_| wrong("unknown figures", line))?;
        match what {
            "stack frame" => stack = Some(bytes),
            "spill stores" => spill_stores = Some(bytes),
            "spill loads" => spill_loads = Some(bytes),
            _ => {}
        }
    }
    let (Some(name), Some(stack), Some(spill_stores), Some(spill_loads)) = (name, stack, spill_stores, spill_loads)
    else {
        return Err(wrong("unknown figures", line));
    };
    match report.kernels.iter_mut().find(|kernel| kernel.name == name) {
        Some(kernel) => (kernel.stack, kernel.spill_stores, kernel.spill_loads) = (stack, spill_stores, spill_loads),
        None => report.functions.push(FunctionFigures { name, stack, spill_stores, spill_loads }),
    }
    Ok(())
}

/// `252 registers, used 1 barriers, 128 bytes smem, 424 bytes cmem[0]`.
fn used(kernel: &mut KernelFigures, rest: &str) -> Option<()> {
    let mut registers = None;
    for part in rest.split(',') {
        let part = part.trim().trim_start_matches("used ");
        let (number, what) = part.split_once(' ')?;
        let number: u32 = number.parse().ok()?;
        match what {
            "registers" => registers = Some(number),
            "barriers" => kernel.barriers = number,
            "bytes smem" => kernel.shared_memory = number,
            _ if what.starts_with("bytes cmem") => {
                kernel.constant_memory = kernel.constant_memory.checked_add(number)?
            }
            // Cumulative stack, textures, surfaces, samplers, local memory.
            _ => {}
        }
    }
    kernel.registers = registers?;
    Some(())
}

/// `ptxas info    : …`, `ptxas module.ptx, line 4; error   : …`, either with a code in brackets.
pub(super) fn message(line: &str) -> Option<Message> {
    let rest = line.strip_prefix("ptxas ")?;
    let (head, text) = rest.split_once(": ")?;
    let (place, severity) = match head.rsplit_once("; ") {
        Some((place, severity)) => (Some(place), severity),
        None => (None, head),
    };
    let severity = match severity.trim().to_ascii_lowercase().as_str() {
        "info" => Severity::Info,
        "warning" => Severity::Warning,
        "error" => Severity::Error,
        "fatal" => Severity::Fatal,
        _ => return None,
    };
    let line = place.and_then(|place| place.rsplit_once("line ")?.1.trim().parse().ok());
    let text = text.trim();
    let coded = text.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    let coded = coded.filter(|(code, _)| code.starts_with('C') && code[1..].bytes().all(|byte| byte.is_ascii_digit()));
    let (code, text) = coded.map_or((None, text), |(code, text)| (Some(code.to_owned()), text));
    Some(Message { severity, line, code, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// As ptxas 12.9 reports two kernels and a function that was not inlined.
    const REPORT: &str = "\
ptxas info    : 0 bytes gmem, 16 bytes cmem[3]
ptxas info    : Compiling entry function 'k2' for 'sm_80'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers, 352 bytes cmem[0]
ptxas info    : Compile time = 1.156 ms
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in the function 'k1'
ptxas info    : Compiling entry function 'k1' for 'sm_80'
ptxas info    : Function properties for k1
    64 bytes stack frame, 24 bytes spill stores, 36 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 64 bytes cumulative stack size, 128 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas module.ptx, line 12; warning : Unused register
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
";

    #[test]
    fn figures_and_messages_are_read() {
        let report = read(REPORT).unwrap();
        let k2 = KernelFigures { name: "k2".into(), registers: 4, constant_memory: 352, ..KernelFigures::default() };
        let k1 = KernelFigures {
            name: "k1".into(),
            registers: 255,
            barriers: 1,
            stack: 64,
            spill_stores: 24,
            spill_loads: 36,
            shared_memory: 128,
            constant_memory: 368,
        };
        assert_eq!(report.kernels, [k2, k1]);
        let helper = FunctionFigures { name: "helper".into(), stack: 8, spill_stores: 4, spill_loads: 4 };
        assert_eq!(report.functions, [helper]);
        let [serialised, unused] = &report.messages[..] else { panic!("{:?}", report.messages) };
        assert_eq!((serialised.severity, serialised.code.as_deref()), (Severity::Info, Some("C7510")));
        assert!(serialised.is_performance_loss() && serialised.text.starts_with("Potential Performance Loss"));
        assert_eq!((unused.severity, unused.line), (Severity::Warning, Some(12)));
        assert!(!unused.is_performance_loss());
        assert_eq!(unused.to_string(), "line 12: Unused register");
    }

    #[test]
    fn errors_are_read() {
        let report = read(
            "ptxas module.ptx, line 4; error   : Unknown modifier '.u99'\nptxas fatal   : Ptx assembly aborted due to errors\n",
        );
        let messages = report.unwrap().messages;
        assert_eq!((messages[0].severity, messages[0].line), (Severity::Error, Some(4)));
        assert_eq!((messages[1].severity, messages[1].line), (Severity::Fatal, None));
    }

    #[test]
    fn figures_that_are_not_understood_are_an_error() {
        for (find, replacement) in [
            ("Used 4 registers", "Used four registers"),
            ("Used 4 registers", "Used no registers"),
            ("0 bytes stack frame, ", ""),
            ("0 bytes spill stores", "nothing of spill stores"),
            ("ptxas info    : Used 4 registers, used 0 barriers, 352 bytes cmem[0]\n", ""),
            ("ptxas info    : Compiling entry function 'k2' for 'sm_80'\n", ""),
            ("352 bytes cmem[0]", "4294967295 bytes cmem[0], 1 bytes cmem[2]"),
        ] {
            let error = read(&REPORT.replacen(find, replacement, 1)).unwrap_err();
            assert_eq!(error.code(), "E0610", "{find}");
            assert!(error.help().unwrap().contains("cargo xtask setup --ptxas"));
        }
    }
}
