//! Cases in worker processes: a crash, a panic or an endless loop of one case ends its worker only.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::worker::WorkerArguments;
use super::{Case, CaseResult, SEVERAL, Settings, Verdict};
use crate::{Diagnostic, Failure};

/// Most bytes of a worker's standard error that are kept: the end is what counts.
const KEPT: usize = 8192;

/// What a worker may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Worker processes at a time.
    pub jobs: usize,
    /// Time of one case.
    pub time: Duration,
    /// Address space of a worker, in bytes.
    pub memory: u64,
}

impl Default for Limits {
    /// As many workers as the machine has processors, two minutes a case, 6 GiB a worker.
    fn default() -> Self {
        Limits {
            jobs: thread::available_parallelism().map_or(1, usize::from),
            time: Duration::from_secs(120),
            memory: 6 << 30,
        }
    }
}

/// Runs cases in workers of this executable, and gives their results in order. `progress` is called after each.
///
/// # Errors
/// `E0043`: a worker cannot be started.
pub fn run_cases(
    cases: &[Case],
    settings: &Settings,
    limits: &Limits,
    progress: &(dyn Fn(usize, &CaseResult) + Sync),
) -> Result<Vec<CaseResult>, Failure> {
    let program = std::env::current_exe().map_err(|error| cannot_start(&error))?;
    let arguments = WorkerArguments {
        target: settings.target.name().to_owned(),
        instruction_budget: settings.instruction_budget,
        memory: limits.memory,
        seed: settings.seed,
    };
    let start = || Worker::start(program.clone().into_os_string(), arguments.words());
    run_in(cases, limits, &start, progress)
}

/// As [`run_cases`], with workers that `start` makes.
fn run_in(
    cases: &[Case],
    limits: &Limits,
    start: &(dyn Fn() -> Result<Worker, Failure> + Sync),
    progress: &(dyn Fn(usize, &CaseResult) + Sync),
) -> Result<Vec<CaseResult>, Failure> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<Vec<(usize, CaseResult)>, Failure> {
        let mut worker: Option<Worker> = None;
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return Ok(results) };
            let mut running = match worker.take() {
                Some(worker) => worker,
                None => start()?,
            };
            let (operator, verdict) = running.run(case, limits.time);
            // A worker that did not answer is gone.
            let verdict = match verdict {
                Some(verdict) => {
                    worker = Some(running);
                    verdict
                }
                None => running.end(limits.time),
            };
            let result = CaseResult { name: case.name.clone(), operator, verdict };
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, &result);
            results.push((index, result));
        }
    };
    let jobs = limits.jobs.clamp(1, cases.len().max(1));
    let mut results = Vec::with_capacity(cases.len());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(done) => results.extend(done?),
                Err(_) => return Err(Diagnostic::new("E0099", "a thread that waits for workers panicked").into()),
            }
        }
        Ok(())
    })
    .map_err(|failure: Failure| failure)?;
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Diagnostic::new("E0043", format!("a worker cannot be started: {error}")).into()
}

/// A running worker.
struct Worker {
    child: Child,
    requests: Option<ChildStdin>,
    /// Lines of its standard output.
    answers: Receiver<String>,
    /// End of its standard error.
    messages: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
    timed_out: bool,
}

impl Worker {
    fn start(program: OsString, arguments: Vec<String>) -> Result<Worker, Failure> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| cannot_start(&error))?;
        let (sender, answers) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let messages = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stderr.take().map(|mut output| {
            let messages = Arc::clone(&messages);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut buffer) {
                    let mut kept = messages.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&buffer[..count]);
                    let surplus = kept.len().saturating_sub(KEPT);
                    kept.drain(..surplus);
                }
            })
        });
        let requests = child.stdin.take();
        Ok(Worker { child, requests, answers, messages, reader, timed_out: false })
    }

    /// Operator and verdict of a case; no verdict if the worker ended or did not answer in time.
    fn run(&mut self, case: &Case, limit: Duration) -> (String, Option<Verdict>) {
        let mut operator = SEVERAL.to_owned();
        let Ok(request) = serde_json::to_string(&case.folder) else {
            let verdict = Verdict::failed(format!("{} is no UTF-8", case.folder.display()));
            return (operator, Some(verdict));
        };
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let sent = self.requests.as_mut().is_some_and(|requests| writeln!(requests, "{request}").is_ok());
        if !sent {
            return (operator, None);
        }
        let end = Instant::now() + limit;
        let mut answer = || match self.answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => {
                self.timed_out = true;
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        };
        let Some(line) = answer() else { return (operator, None) };
        operator = serde_json::from_str(&line).unwrap_or(operator);
        let verdict = answer().and_then(|line| serde_json::from_str(&line).ok());
        (operator, verdict)
    }

    /// Stops the worker and says how it ended.
    fn end(mut self, limit: Duration) -> Verdict {
        if self.timed_out {
            return Verdict::failed(format!("no answer within {} s", limit.as_secs_f64()));
        }
        // It has closed its output or written something else; it may still be there.
        let end = Instant::now() + Duration::from_secs(5);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
                Ok(None) => break "no answer".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        let _ = self.child.kill();
        // The reader ends when the pipe does.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&messages);
        Verdict::failed(format!("the compiler crashed ({status}): {}", telling(&text)))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without requests it ends by itself; it need not finish what it does.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line of what a process wrote before it crashed that says most: Tenon's own error, an assertion, LLVM's last words; else the
/// first line.
fn telling(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let marks = ["error[", "Assertion", "LLVM ERROR", "memory allocation", "overflowed its stack", "error:"];
    let marked = marks.iter().find_map(|mark| lines().find(|line| line.contains(mark)));
    marked.or_else(|| lines().next()).unwrap_or("no message")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::conformance::Outcome;

    /// A shell script in a worker's place.
    fn verdicts(script: &str, names: &[&str], limit: Duration) -> Vec<CaseResult> {
        let cases: Vec<_> =
            names.iter().map(|name| Case { name: (*name).to_owned(), folder: PathBuf::from(name) }).collect();
        let start = || Worker::start("/bin/sh".into(), vec!["-c".to_owned(), script.to_owned()]);
        let limits = Limits { jobs: 2, time: limit, memory: 0 };
        let results = run_in(&cases, &limits, &start, &|_, _| {}).unwrap();
        assert_eq!(results.iter().map(|result| result.name.as_str()).collect::<Vec<_>>(), names);
        results
    }

    const SCRIPT: &str = r#"while read -r line; do
        echo '"Abs"'
        case "$line" in
            *crash*) echo 'LLVM ERROR: no registers' >&2; kill -ABRT $$;;
            *hang*) sleep 30;;
            *leave*) exit 0;;
            *babble*) echo 'not JSON';;
            *) echo '{"outcome": "refused", "code": "E0501", "detail": "d"}';;
        esac
    done"#;

    #[test]
    fn a_case_takes_no_other_one_with_it() {
        let names = ["a", "crash", "b", "hang", "c", "leave", "d", "babble", "e"];
        let results = verdicts(SCRIPT, &names, Duration::from_secs(3));
        for result in &results {
            let good = result.name.len() == 1;
            assert_eq!(result.verdict.outcome, if good { Outcome::Refused } else { Outcome::Failed }, "{result:?}");
            assert_eq!(result.operator, "Abs");
        }
        let detail = |index: usize| results[index].verdict.detail.clone().unwrap();
        assert!(detail(1).contains("signal: 6") && detail(1).contains("LLVM ERROR: no registers"), "{}", detail(1));
        assert_eq!(detail(3), "no answer within 3 s");
        assert!(detail(5).contains("exit status: 0") && detail(5).contains("no message"), "{}", detail(5));
    }

    #[test]
    fn a_worker_that_does_not_start_is_refused() {
        let case = Case { name: "a".to_owned(), folder: PathBuf::from("a") };
        let start = || Worker::start("/nonexistent".into(), Vec::new());
        let failure = run_in(&[case], &Limits::default(), &start, &|_, _| {}).unwrap_err();
        assert_eq!(failure.0[0].code, "E0043");
    }
}
