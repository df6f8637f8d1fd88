//! `hardware.over_budget = "stream"`: a bucket over the activation budget is computed in parts, one after another.
//!
//! The fewest equal parts along the first dimension that may be cut are taken which bring every target within the budget. Trials go as far as the memory plan.

use tenon_ir::Module;
use tenon_recipe::OverBudget;
use tenon_shape_passes::{MAX_PARTS, Point, Rows, ShapeSpace, split};

use crate::driver::{Driver, backend};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

impl<'s> Driver<'s, '_> {
    /// The module of a bucket, in parts where the recipe wants that and the budget asks for it. `whole` is the module of the bucket, `contracted` that before.
    ///
    /// # Errors
    /// What later stages refuse of it. A bucket that parts do not bring within the budget is given back whole, and refused when its plan is made.
    pub(super) fn in_parts(
        &mut self,
        contracted: &Module<'s>,
        point: &Point,
        whole: Module<'s>,
        label: &Option<String>,
    ) -> Result<Module<'s>, Failure> {
        let hardware = &self.request.recipe.hardware;
        let (Some(budget), OverBudget::Stream) = (hardware.activation_budget, hardware.over_budget) else {
            return Ok(whole);
        };
        if self.arena_bytes(&whole, label)? <= budget {
            return Ok(whole);
        }
        let space = ShapeSpace::read(contracted)?;
        let mut reasons = Vec::new();
        for (index, (name, size)) in point.iter().enumerate() {
            if space.is_padded(name) {
                reasons.push(format!("`{name}` is padded, and its size is known only when a request comes"));
                continue;
            }
            let rows = match Rows::of(contracted, name) {
                Ok(rows) => rows,
                Err(error) => {
                    reasons.push(error.to_string());
                    continue;
                }
            };
            let mut least = None;
            for parts in (2..=MAX_PARTS.min(*size)).filter(|parts| size % parts == 0) {
                let mut part = point.clone();
                part[index].1 = size / parts;
                let mut module = contracted.duplicate();
                self.run_passes(Stage::Bucket, &part, &mut module, label)?;
                split(&module, &rows, parts, point)?;
                tenon_pass_manager::verify(&module, || "after the bucket was taken in parts".to_owned())?;
                let bytes = self.arena_bytes(&module, label)?;
                if bytes <= budget {
                    let bucket = label.as_ref().map(|label| format!("bucket {label}: ")).unwrap_or_default();
                    self.notes.push(format!("{bucket}computed in {parts} parts along `{name}`, in {bytes} bytes"));
                    return Ok(module);
                }
                least = Some(least.map_or((bytes, parts), |least: (u64, u64)| least.min((bytes, parts))));
            }
            reasons.push(match least {
                Some((bytes, parts)) => format!("in {parts} parts along `{name}` they take {bytes} bytes"),
                None => format!("{size} rows along `{name}` are not cut into at most {MAX_PARTS} equal parts"),
            });
        }
        if reasons.is_empty() {
            reasons.push("no dimension has a name".to_owned());
        }
        self.unsplit.insert(label.clone(), reasons.join("; "));
        Ok(whole)
    }

    /// The largest arena that a module of stage `bucket` needs on one of the targets.
    fn arena_bytes(&mut self, module: &Module<'s>, label: &Option<String>) -> Result<u64, Failure> {
        let mut module = module.duplicate();
        for stage in [Stage::Flow, Stage::Fuse] {
            self.run_passes(stage, &Point::new(), &mut module, label)?;
        }
        let mut most = 0;
        for target in self.request.targets.clone() {
            let (lowered, _) = backend::to_hw(self.session, &module, target)?;
            let program = lowered.body().ops().into_iter().find(|op| op.is("hw.program"));
            let bytes = program.and_then(|op| op.integer("arena_bytes")).and_then(|bytes| u64::try_from(bytes).ok());
            most = most.max(bytes.ok_or_else(|| Diagnostic::new("E0404", "stage `hw` has no program"))?);
        }
        Ok(most)
    }
}
