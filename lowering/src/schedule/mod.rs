//! Schedules: from a `graph.kernel` to a tile program.
//!
//! A kernel's family picks the schedule; its body is read as plain data ([`body`]), and everything that is not the family's own work (loads,
//! prologues, epilogues) is evaluated at the index of each tile's places ([`evaluate`]). The kernel's pointers are its operands in order, then its
//! results in order, then its workspaces, then its tensor maps, then its extents.

mod attention;
mod body;
mod candidate;
mod control;
mod evaluate;
mod gemm;
mod index;
mod map;
mod non_max_suppression;
mod numeric_class;
mod placed;
mod places;
mod recurrence;
mod reduce;
mod scalar;
mod scan;
mod scatter;
mod size;
mod tensor_map;
mod top_k;
mod workspace;

use tenon_graph_dialect::{DimExpr, write_dim_expr};
use tenon_hw_dialect::TileBuilder;
use tenon_ir::{Builder, Op};
use tenon_target::Target;

use crate::LoweringError;
use body::Body;
pub use candidate::{Candidate, RuledOut, Weighed, candidates};
use size::Size;
pub use tensor_map::KernelTensorMap;
pub use workspace::KernelWorkspace;

/// Launch of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelShape {
    /// Warps of a block that hold tiles.
    pub warps: u32,
    /// Warps of a block besides, which only copy.
    pub producer_warps: u32,
    /// Blocks along x, y and z, as expressions of extents.
    pub grid: [DimExpr; 3],
}

impl KernelShape {
    /// A launch of blocks along x only.
    fn line(warps: u32, blocks: DimExpr) -> Self {
        KernelShape { warps, producer_warps: 0, grid: [blocks, DimExpr::constant(1), DimExpr::constant(1)] }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.warps + self.producer_warps) * 32
    }
}

/// Parts of `part` elements that hold `size`. A launch of no blocks does nothing.
fn parts(size: Size, part: u32, body: &Body) -> Result<DimExpr, LoweringError> {
    let part = i64::from(part.max(1));
    let sum = size.expression(&body.extents)?.add(&DimExpr::constant(part - 1));
    let parts = sum.and_then(|sum| sum.floor_div(part));
    parts.ok_or_else(|| body.error("the number of blocks is too complex an expression"))
}

/// A kernel that was lowered to a tile program.
pub struct ScheduledKernel<'m> {
    /// Its name.
    pub name: String,
    /// Its launch.
    pub shape: KernelShape,
    /// Memory that it gets pointers to after those of its results.
    pub workspaces: Vec<KernelWorkspace>,
    /// What it gets by value after its pointers.
    pub tensor_maps: Vec<KernelTensorMap>,
    /// What it gets as i64 after these.
    pub extents: Vec<DimExpr>,
    /// The `hw.kernel`.
    pub op: Op<'m>,
}

/// Lowers a `graph.kernel` to an `hw.kernel` called `name`, built at `into` (the body of a module) for a target.
pub fn lower_kernel<'m>(
    kernel: Op<'_>,
    into: Builder<'m>,
    name: &str,
    target: &Target,
) -> Result<ScheduledKernel<'m>, LoweringError> {
    let body = Body::read(kernel)?;
    let sources = kernel.location().names();
    let schedule = Schedule::choose(&body, target).map_err(|error| error.with_nodes(sources.clone()))?;
    let shape = schedule.shape(&body, target)?;
    let tensor_maps = schedule.tensor_maps(&body)?;
    let workspaces = schedule.workspaces();
    let context = into.context();
    let grid: Vec<_> = shape.grid.iter().map(|size| write_dim_expr(size, context)).collect();
    let names: Vec<_> = sources.iter().map(|name| context.string(name)).collect();
    let op = into
        .op("hw.kernel")
        .attribute("sym_name", context.string(name))
        .attribute("target", context.string(&target.architecture.llvm.processor))
        .attribute("warps", context.i64(i64::from(shape.warps)))
        .optional_attribute(
            "producer_warps",
            (shape.producer_warps > 0).then(|| context.i64(i64::from(shape.producer_warps))),
        )
        .attribute("grid", context.array(&grid))
        .attribute("source_nodes", context.array(&names))
        .regions(1)
        .build()?;
    let pointer = context.pointer_type(1);
    let mut arguments = vec![(pointer, into.location()); body.inputs.len() + body.outputs.len() + workspaces.len()];
    for map in &tensor_maps {
        arguments.push((map.ty().to_type(context)?, into.location()));
    }
    arguments.extend(vec![(context.i64_type(), into.location()); body.extents.expressions.len()]);
    let region = op.region(0).ok_or_else(|| body.error("the kernel has no region"))?;
    let block = region.append_block(&arguments)?;
    let builder = TileBuilder::new(into.in_block(block));
    let pointers = block.arguments();
    let (inputs, rest) = pointers.split_at(body.inputs.len());
    let (outputs, rest) = rest.split_at(body.outputs.len());
    let (memory, rest) = rest.split_at(workspaces.len());
    let (maps, extents) = rest.split_at(tensor_maps.len());
    size::declare_extents(builder.scalar(), extents)?;
    schedule
        .build(builder, &body, target, [inputs, outputs, memory, maps])
        .map_err(|error| error.with_nodes(sources))?;
    builder.builder().op("hw.return").build()?;
    Ok(ScheduledKernel { name: name.to_owned(), shape, workspaces, tensor_maps, extents: body.extents.expressions, op })
}

/// The schedule of a kernel.
enum Schedule {
    Map,
    Reduce(reduce::ReducePlan),
    Scan(scan::ScanPlan),
    Scatter(scatter::ScatterPlan),
    TopK(top_k::TopKPlan),
    NonMaxSuppression(non_max_suppression::NonMaxSuppressionPlan),
    Gemm(Box<gemm::GemmSchedule>),
    Attention(Box<attention::AttentionSchedule>),
    Recurrence(Box<recurrence::RecurrencePlan>),
}

impl Schedule {
    fn choose(body: &Body, target: &Target) -> Result<Self, LoweringError> {
        Ok(match body.family.as_str() {
            "map" | "quantize" => Schedule::Map,
            "reduce" => Schedule::Reduce(reduce::ReducePlan::new(body)?),
            "scan" => Schedule::Scan(scan::ScanPlan::new(body, target)?),
            "scatter" => Schedule::Scatter(scatter::ScatterPlan::new(body, target)?),
            "top_k" => Schedule::TopK(top_k::TopKPlan::new(body)?),
            "non_max_suppression" => {
                Schedule::NonMaxSuppression(non_max_suppression::NonMaxSuppressionPlan::new(body)?)
            }
            "contract" | "convolution" => match gemm::GemmSchedule::choose(body, target)? {
                Some(schedule) => Schedule::Gemm(Box::new(schedule)),
                None => Schedule::Map,
            },
            "attention" => Schedule::Attention(Box::new(attention::AttentionSchedule::choose(body, target)?)),
            "recurrence" => Schedule::Recurrence(Box::new(recurrence::RecurrencePlan::new(body)?)),
            family => {
                let operator = body.nodes.first().map_or("graph.kernel", |node| node.operator.name());
                return Err(LoweringError::unsupported(operator, format!("kernels of family `{family}`")));
            }
        })
    }

    fn shape(&self, body: &Body, target: &Target) -> Result<KernelShape, LoweringError> {
        match self {
            Schedule::Map => map::shape(body, target),
            Schedule::Reduce(plan) => plan.shape(body),
            Schedule::Scan(plan) => plan.shape(body),
            Schedule::Scatter(plan) => plan.shape(body),
            Schedule::TopK(plan) => plan.shape(body),
            Schedule::NonMaxSuppression(plan) => plan.shape(body),
            Schedule::Gemm(schedule) => schedule.shape(body),
            Schedule::Attention(schedule) => schedule.shape(body),
            Schedule::Recurrence(plan) => plan.shape(body),
        }
    }

    fn tensor_maps(&self, body: &Body) -> Result<Vec<KernelTensorMap>, LoweringError> {
        match self {
            Schedule::Gemm(schedule) => schedule.tensor_maps(body),
            Schedule::Attention(schedule) => schedule.tensor_maps(body),
            _ => Ok(Vec::new()),
        }
    }

    fn workspaces(&self) -> Vec<KernelWorkspace> {
        match self {
            Schedule::Gemm(schedule) => schedule.workspaces(),
            _ => Vec::new(),
        }
    }

    fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        target: &Target,
        [inputs, outputs, workspaces, maps]: [&[tenon_ir::Value<'m>]; 4],
    ) -> Result<(), LoweringError> {
        match self {
            Schedule::Map => map::build(builder, body, target, inputs, outputs),
            Schedule::Reduce(plan) => plan.build(builder, body, inputs, outputs),
            Schedule::Scan(plan) => plan.build(builder, body, inputs, outputs),
            Schedule::Scatter(plan) => plan.build(builder, body, inputs, outputs),
            Schedule::TopK(plan) => plan.build(builder, body, inputs, outputs),
            Schedule::NonMaxSuppression(plan) => plan.build(builder, body, inputs, outputs),
            Schedule::Gemm(schedule) => schedule.build(builder, body, [inputs, outputs, workspaces, maps]),
            Schedule::Attention(schedule) => schedule.build(builder, body, [inputs, outputs, maps]),
            Schedule::Recurrence(plan) => plan.build(builder, body, inputs, outputs),
        }
    }
}
