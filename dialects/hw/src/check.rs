//! Semantic checks of a module: what ODS cannot say about tiles and launch plans.

use std::collections::{BTreeMap, HashMap};

use tenon_ir::{Module, Op, Type};
use tenon_tensor::DType;

use crate::{HwError, SharedType, TensorMapType, TileType, read_mbarriers};

/// Checks every operation of the hw dialect in a module; finds all errors, in order of the text.
pub fn check(module: &Module<'_>) -> Vec<HwError> {
    let mut checker = Checker { tiles: HashMap::new(), kernels: BTreeMap::new(), errors: Vec::new() };
    for op in module.body().ops() {
        if op.is("hw.kernel") {
            checker.kernel(op);
        }
    }
    for op in module.body().ops() {
        if op.is("hw.program") {
            checker.program(op);
        }
    }
    checker.errors
}

struct Checker {
    /// Tile types by their identity: reading one means printing it.
    tiles: HashMap<usize, TileType>,
    /// Pointers and tensor maps of each kernel.
    kernels: BTreeMap<String, [usize; 2]>,
    errors: Vec<HwError>,
}

impl Checker {
    fn kernel(&mut self, kernel: Op<'_>) {
        let name = kernel.string("sym_name").unwrap_or_default();
        let arguments = kernel.region_block(0).map(|block| block.arguments()).unwrap_or_default();
        let count = |dialect: &str| arguments.iter().filter(|argument| argument.ty().dialect() == dialect).count();
        self.kernels.insert(name.clone(), [count("llvm"), count("hw")]);
        let warps = kernel.integer("warps").unwrap_or(0);
        if !(1..=32).contains(&warps) || warps & (warps - 1) != 0 {
            self.fail(&name, kernel, format!("{warps} warps: a power of two from 1 to 32 is expected"));
        }
        if let Err(message) = self.roles(kernel) {
            self.fail(&name, kernel, message);
        }
        for op in kernel.walk() {
            if let Err(message) = self.operation(op, warps) {
                self.fail(&name, op, message);
            }
        }
    }

    /// In a kernel with producer warps, these hold no tiles: what makes them stands behind `hw.producer`.
    fn roles(&mut self, kernel: Op<'_>) -> Result<(), String> {
        if kernel.integer("producer_warps").unwrap_or(0) == 0 {
            return Ok(());
        }
        let ops = kernel.region_block(0).map(|block| block.ops()).unwrap_or_default();
        let producer =
            ops.iter().position(|op| op.is("hw.producer")).ok_or("it has producer warps and no hw.producer")?;
        let results = ops[..=producer].iter().flat_map(|op| op.walk()).flat_map(|op| op.results());
        match results.into_iter().any(|value| value.ty().to_string().starts_with("!hw.tile")) {
            true => Err("a tile before hw.producer, or inside: the producer warps hold none".to_owned()),
            false => Ok(()),
        }
    }

    fn fail(&mut self, kernel: &str, op: Op<'_>, message: String) {
        let kernel = (!kernel.is_empty()).then(|| kernel.to_owned());
        self.errors.push(HwError::Semantic { operation: op.name(), kernel, message });
    }

    fn tile(&mut self, ty: Type<'_>) -> Result<TileType, String> {
        if let Some(tile) = self.tiles.get(&ty.key()) {
            return Ok(tile.clone());
        }
        let tile = TileType::read(ty).map_err(|error| error.to_string())?;
        self.tiles.insert(ty.key(), tile.clone());
        Ok(tile)
    }

    fn operand(&mut self, op: Op<'_>, index: usize) -> Result<TileType, String> {
        let operand = op.operand(index).ok_or_else(|| format!("operand {index} is missing"))?;
        self.tile(operand.ty())
    }

    fn result(&mut self, op: Op<'_>, index: usize) -> Result<TileType, String> {
        let result = op.result(index).ok_or_else(|| format!("result {index} is missing"))?;
        self.tile(result.ty())
    }

    fn operation(&mut self, op: Op<'_>, warps: i64) -> Result<(), String> {
        for value in op.results() {
            if value.ty().dialect() == "hw" && value.ty().to_string().starts_with("!hw.tile") {
                let tile = self.tile(value.ty())?;
                if i64::from(tile.layout.warps()) != warps {
                    return Err(format!("a tile over {} warps in a kernel of {warps}", tile.layout.warps()));
                }
            }
        }
        let name = op.name();
        match name.as_str() {
            "hw.iota" => self.iota(op),
            "hw.map" => self.map(op),
            "hw.load" => self.load(op),
            "hw.store" => self.store(op),
            "hw.reduce" => self.reduce(op),
            "hw.scan" => self.scan(op),
            "hw.convert_layout" => self.convert(op),
            "hw.expand_dims" => {
                let (operand, result) = (self.operand(op, 0)?, self.result(op, 0)?);
                let dimension = op.integer("dimension").unwrap_or(-1);
                let mut shape = operand.shape().to_vec();
                if !(0..=shape.len() as i64).contains(&dimension) {
                    return Err(format!("dimension {dimension} of {shape:?}"));
                }
                shape.insert(dimension as usize, 1);
                equal("the result's shape", &shape[..], result.shape())
            }
            "hw.broadcast" => {
                let (operand, result) = (self.operand(op, 0)?, self.result(op, 0)?);
                let fits = operand.shape().len() == result.shape().len()
                    && operand.shape().iter().zip(result.shape()).all(|(a, b)| a == b || *a == 1);
                if fits {
                    Ok(())
                } else {
                    Err(format!("{:?} does not broadcast to {:?}", operand.shape(), result.shape()))
                }
            }
            "hw.mma" => self.mma(op),
            "hw.wgmma" => self.wgmma(op),
            "hw.tma_load" => tma_load(op),
            "hw.arrive" => match op.parent().is_some_and(|parent| parent.is("hw.producer")) {
                true => Err("all warps that compute arrive, not one thread of the producer warps".to_owned()),
                false => Ok(()),
            },
            "hw.producer" => {
                let parent = op.parent().filter(|parent| parent.is("hw.kernel"));
                let kernel = parent.ok_or("it must stand in the kernel's own block")?;
                match kernel.integer("producer_warps") {
                    Some(1..) => Ok(()),
                    _ => Err("the kernel has no producer warps".to_owned()),
                }
            }
            "hw.local_load" => {
                let shared = shared(op, 0)?;
                let result = self.result(op, 0)?;
                equal("the element type", &shared.element, &result.element)?;
                equal("the shape", shared.layout.shape(), result.shape())
            }
            "hw.local_store" => {
                let (value, shared) = (self.operand(op, 0)?, shared(op, 1)?);
                equal("the element type", &shared.element, &value.element)?;
                equal("the shape", shared.layout.shape(), value.shape())
            }
            "hw.async_copy" => {
                let (offsets, shared) = (self.operand(op, 1)?, shared(op, 2)?);
                equal("the shape", shared.layout.shape(), offsets.shape())?;
                self.mask(op, 4, &offsets)
            }
            _ => Ok(()),
        }
    }

    fn iota(&mut self, op: Op<'_>) -> Result<(), String> {
        let tile = self.result(op, 0)?;
        let dimension = op.integer("dimension").unwrap_or(-1);
        if tile.element != DType::I32 || !(0..tile.shape().len() as i64).contains(&dimension) {
            return Err(format!("dimension {dimension} of {:?} as {}", tile.shape(), tile.element));
        }
        Ok(())
    }

    fn map(&mut self, op: Op<'_>) -> Result<(), String> {
        let block = op.region_block(0).ok_or("it has no body")?;
        let mut layout = None;
        let inputs = (0..op.operand_count()).map(|index| self.operand(op, index)).collect::<Result<Vec<_>, _>>()?;
        let outputs = (0..op.result_count()).map(|index| self.result(op, index)).collect::<Result<Vec<_>, _>>()?;
        for tile in inputs.iter().chain(&outputs) {
            match &layout {
                None => layout = Some(tile.layout.clone()),
                Some(layout) if *layout != tile.layout => return Err("its tiles differ in layout".to_owned()),
                Some(_) => {}
            }
        }
        let arguments: Vec<_> = block.arguments().iter().map(|argument| argument.ty().dtype()).collect();
        equal("the body's arguments", &inputs.iter().map(|tile| Some(tile.element)).collect::<Vec<_>>(), &arguments)?;
        self.yields(op, &outputs)
    }

    fn yields(&mut self, op: Op<'_>, outputs: &[TileType]) -> Result<(), String> {
        let terminator = op.region_block(0).and_then(|block| block.terminator()).filter(|op| op.is("hw.yield"));
        let terminator = terminator.ok_or("its body must end in hw.yield")?;
        let yielded: Vec<_> = terminator.operands().iter().map(|value| value.ty().dtype()).collect();
        equal("what the body yields", &outputs.iter().map(|tile| Some(tile.element)).collect::<Vec<_>>(), &yielded)
    }

    fn mask(&mut self, op: Op<'_>, index: usize, offsets: &TileType) -> Result<(), String> {
        if op.operand_count() <= index {
            return Ok(());
        }
        let mask = self.operand(op, index)?;
        if mask.element != DType::Bool || mask.layout != offsets.layout {
            return Err("the mask must be i1 in the layout of the offsets".to_owned());
        }
        Ok(())
    }

    fn offsets(&mut self, op: Op<'_>) -> Result<TileType, String> {
        let offsets = self.operand(op, 1)?;
        if !matches!(offsets.element, DType::I32 | DType::I64) {
            return Err(format!("offsets must be i32 or i64, not {}", offsets.element));
        }
        let contiguity = op.integer("contiguity").unwrap_or(1);
        if contiguity < 1 || contiguity & (contiguity - 1) != 0 || contiguity > i64::from(offsets.layout.registers()) {
            return Err(format!("contiguity {contiguity} of {} registers", offsets.layout.registers()));
        }
        Ok(offsets)
    }

    fn load(&mut self, op: Op<'_>) -> Result<(), String> {
        let offsets = self.offsets(op)?;
        let result = self.result(op, 0)?;
        if result.layout != offsets.layout {
            return Err("the result must be in the layout of the offsets".to_owned());
        }
        self.mask(op, 2, &offsets)
    }

    fn store(&mut self, op: Op<'_>) -> Result<(), String> {
        let offsets = self.offsets(op)?;
        let value = self.operand(op, 2)?;
        if value.layout != offsets.layout {
            return Err("the value must be in the layout of the offsets".to_owned());
        }
        self.mask(op, 3, &offsets)
    }

    fn reduce(&mut self, op: Op<'_>) -> Result<(), String> {
        let dimension =
            op.integer("dimension").and_then(|dimension| usize::try_from(dimension).ok()).ok_or("no dimension")?;
        let mut outputs = Vec::new();
        for index in 0..op.operand_count() {
            let input = self.operand(op, index)?;
            let sliced = input.layout.slice(dimension).map_err(|error| error.to_string())?;
            let output = self.result(op, index)?;
            if output != TileType::new(input.element, sliced) {
                return Err(format!("result {index} must be the slice of operand {index} along dimension {dimension}"));
            }
            outputs.push(output);
        }
        self.yields(op, &outputs)
    }

    fn scan(&mut self, op: Op<'_>) -> Result<(), String> {
        let dimension = op.integer("dimension").unwrap_or(-1);
        let mut outputs: Vec<TileType> = Vec::new();
        for index in 0..op.operand_count() {
            let input = self.operand(op, index)?;
            if !(0..input.shape().len() as i64).contains(&dimension) {
                return Err(format!("dimension {dimension} of {:?}", input.shape()));
            }
            equal("the layout of all tiles", &outputs.first().unwrap_or(&input).layout, &input.layout)?;
            equal("the type of a result", &input, &self.result(op, index)?)?;
            outputs.push(input);
        }
        self.yields(op, &outputs)
    }

    fn convert(&mut self, op: Op<'_>) -> Result<(), String> {
        let (operand, result) = (self.operand(op, 0)?, self.result(op, 0)?);
        equal("the element type", &operand.element, &result.element)?;
        equal("the shape", operand.shape(), result.shape())
    }

    fn mma(&mut self, op: Op<'_>) -> Result<(), String> {
        let (a, b, c) = (self.operand(op, 0)?, self.operand(op, 1)?, self.operand(op, 2)?);
        match (a.shape(), b.shape(), c.shape()) {
            ([m, k], [k2, n], [m2, n2]) if m == m2 && n == n2 && k == k2 => Ok(()),
            (a, b, c) => Err(format!("{a:?} · {b:?} + {c:?} do not fit")),
        }
    }

    /// Operands are A, its slot where it is shared memory, B, its slot, and where sums go on, C.
    fn wgmma(&mut self, op: Op<'_>) -> Result<(), String> {
        let (a, b) = match shared(op, 0) {
            Ok(a) => (a.layout.shape().to_vec(), shared(op, 2)?),
            Err(_) => (self.operand(op, 0)?.shape().to_vec(), shared(op, 1)?),
        };
        let result = self.result(op, 0)?;
        let c = op.operands().last().copied().filter(|last| last.ty().to_string().starts_with("!hw.tile"));
        if let Some(c) = c {
            equal("the type of the result", &self.tile(c.ty())?, &result)?;
        }
        match (&a[..], b.layout.shape(), result.shape()) {
            ([m, k], [k2, n], [m2, n2]) if m == m2 && n == n2 && k == k2 => Ok(()),
            (a, b, c) => Err(format!("{a:?} · {b:?} to {c:?} do not fit")),
        }
    }

    fn program(&mut self, program: Op<'_>) {
        let arena = program.integer("arena_bytes").unwrap_or(0);
        let zeroed: Vec<_> = program.walk().into_iter().filter(|op| is_zeroed(*op)).map(|op| (op, range(op))).collect();
        for op in program.walk() {
            let message = if is_zeroed(op) && op.attribute("output").is_some() {
                Some("an output cannot be `zeroed`: no kernel leaves zeros in it".to_owned())
            } else if op.is("hw.buffer") && op.attribute("output").is_none() {
                let [offset, bytes] = range(op);
                let end = offset.checked_add(bytes);
                let inside = offset >= 0 && bytes >= 0 && end.is_some_and(|end| end <= arena);
                let meets = |(other, [start, length]): &(Op<'_>, [i64; 2])| {
                    let end = offset.saturating_add(bytes).min(start.saturating_add(*length));
                    *other != op && offset.max(*start) < end
                };
                if !inside {
                    Some(format!("bytes {offset} to {offset} + {bytes} lie outside an arena of {arena}"))
                } else {
                    let shared = zeroed.iter().find(|other| meets(other));
                    shared.map(|(_, [start, _])| format!("it shares bytes with the `zeroed` buffer at {start}"))
                }
            } else if op.is("hw.launch") {
                let name = op.attribute("kernel").and_then(|kernel| kernel.as_symbol()).unwrap_or_default();
                match self.kernels.get(&name) {
                    None => Some(format!("there is no kernel `@{name}`")),
                    Some([pointers, _]) if *pointers != op.operand_count() => {
                        Some(format!("`@{name}` takes {pointers} buffers, not {}", op.operand_count()))
                    }
                    Some([_, maps]) if *maps != tensor_maps(op) => {
                        Some(format!("`@{name}` takes {maps} tensor maps, not {}", tensor_maps(op)))
                    }
                    Some(_) => None,
                }
            } else {
                None
            };
            if let Some(message) = message {
                self.fail("", op, message);
            }
        }
    }
}

/// Whether it is a buffer that holds zeros between runs.
fn is_zeroed(op: Op<'_>) -> bool {
    op.is("hw.buffer") && op.attribute("zeroed").is_some()
}

/// Offset and size of a buffer.
fn range(buffer: Op<'_>) -> [i64; 2] {
    ["offset", "bytes"].map(|name| buffer.integer(name).unwrap_or(-1))
}

/// How many tensor maps a launch describes.
fn tensor_maps(launch: Op<'_>) -> usize {
    launch.attribute("tensor_maps").and_then(|list| list.as_array()).map_or(0, |list| list.len())
}

fn tma_load(op: Op<'_>) -> Result<(), String> {
    let operands = op.operands();
    let [map, coordinates @ .., shared, _, barriers] = &operands[..] else {
        return Err("operands are missing".to_owned());
    };
    let map = TensorMapType::read(map.ty()).map_err(|error| error.to_string())?;
    let shared = SharedType::read(shared.ty()).map_err(|error| error.to_string())?;
    let barriers = read_mbarriers(barriers.ty()).map_err(|error| error.to_string())?;
    equal("the number of coordinates", &map.tile.len(), &coordinates.len())?;
    equal("the element type", &map.element, &shared.element)?;
    equal("the number of barriers", &shared.slots, &barriers)?;
    if map.elements() == 0 || u64::from(shared.layout.elements()) % map.elements() != 0 {
        return Err(format!("boxes of {:?} do not fill {:?}", map.tile, shared.layout.shape()));
    }
    Ok(())
}

fn shared(op: Op<'_>, index: usize) -> Result<SharedType, String> {
    let operand = op.operand(index).ok_or_else(|| format!("operand {index} is missing"))?;
    SharedType::read(operand.ty()).map_err(|error| error.to_string())
}

fn equal<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: {expected:?} is expected, not {found:?}")) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_ir::Session;

    const LAYOUT: &str = "#l = #hw.layout<reg = [], lane = [[1], [2], [4], [8], [16]], warp = []>\n";
    const OTHER: &str = "#o = #hw.layout<reg = [], lane = [[16], [8], [4], [2], [1]], warp = []>\n";

    fn errors(body: &str) -> Vec<String> {
        let session = Session::new();
        let text = format!(
            "{LAYOUT}{OTHER}hw.kernel @k target \"sm_80\" warps 1 grid [1] {{\n^bb0(%p: !llvm.ptr<1>):\n{body}\nhw.return\n}}"
        );
        let module = session.parse_module(&text, "test").unwrap();
        check(&module).iter().map(|error| format!("{} {error}", error.code())).collect()
    }

    #[test]
    fn a_right_kernel_passes() {
        let body = "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
            %v = hw.load %p[%i] : !llvm.ptr<1>, !hw.tile<[32] x i32, #l> -> !hw.tile<[32] x f32, #l>
            hw.store %v, %p[%i] : !hw.tile<[32] x f32, #l>, !llvm.ptr<1>, !hw.tile<[32] x i32, #l>";
        assert_eq!(errors(body), Vec::<String>::new());
    }

    #[test]
    fn each_rule_bites() {
        let cases = [
            ("%i = hw.iota 1 : !hw.tile<[32] x i32, #l>", "dimension 1"),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %v = hw.load %p[%i] : !llvm.ptr<1>, !hw.tile<[32] x i32, #l> -> !hw.tile<[32] x f32, #o>",
                "layout of the offsets",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %v = hw.load %p[%i] {contiguity = 4 : i64} : !llvm.ptr<1>, !hw.tile<[32] x i32, #l> -> !hw.tile<[32] x f32, #l>",
                "contiguity 4",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %j = hw.iota 0 : !hw.tile<[32] x i32, #o>
                 %s = hw.map(%i, %j) : (!hw.tile<[32] x i32, #l>, !hw.tile<[32] x i32, #o>) -> !hw.tile<[32] x i32, #l> {
                 ^bb0(%a: i32, %b: i32): hw.yield %a : i32 }",
                "differ in layout",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %s = hw.map(%i) : (!hw.tile<[32] x i32, #l>) -> !hw.tile<[32] x f32, #l> {
                 ^bb0(%a: i32): hw.yield %a : i32 }",
                "yields",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %s = hw.convert_layout %i : !hw.tile<[32] x i32, #l> -> !hw.tile<[32] x f32, #o>",
                "element type",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %s = hw.scan 1 (%i) : (!hw.tile<[32] x i32, #l>) -> !hw.tile<[32] x i32, #l> {
                 ^bb0(%a: i32, %b: i32): hw.yield %a : i32 }",
                "dimension 1",
            ),
            (
                "%i = hw.iota 0 : !hw.tile<[32] x i32, #l>
                 %s = hw.scan 0 (%i) : (!hw.tile<[32] x i32, #l>) -> !hw.tile<[32] x i32, #o> {
                 ^bb0(%a: i32, %b: i32): hw.yield %a : i32 }",
                "type of a result",
            ),
            ("%i = hw.iota 0 : !hw.tile<[32] x i32, <reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[0]]>>", "over 2 warps"),
        ];
        for (body, expected) in cases {
            let found = errors(body);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].starts_with("E0322") && found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn pipelines_fit_together() {
        let memory = "%s = hw.alloc : !hw.shared<2 x [8, 64] x f16, <offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0]]>>
            %b = hw.mbarrier_alloc 1 : !hw.mbarriers<2>
            %0 = arith.constant 0 : i32\n";
        let ty = "!hw.shared<2 x [8, 64] x f16, <offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0]]>>";
        let found = |map: &str, coordinates: &str, count: u32| {
            let session = Session::new();
            let text = format!(
                "hw.kernel @k target \"sm_90a\" warps 4 grid [1] attributes {{producer_warps = 1 : i64}} {{\n^bb0(%m: {map}):\n{}
                 hw.producer {{ hw.tma_load %m[{coordinates}] to %s[%0] arrive %b : {map}, {ty}, !hw.mbarriers<{count}> }}\nhw.return\n}}",
                memory.replace("<2>", &format!("<{count}>"))
            );
            let module = session.parse_module(&text, "test").unwrap();
            check(&module).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("!hw.tensor_map<[64, 8] x f16, 128>", "%0, %0", 2), Vec::<String>::new());
        for (map, coordinates, count, expected) in [
            ("!hw.tensor_map<[64, 8] x f16, 128>", "%0", 2, "number of coordinates"),
            ("!hw.tensor_map<[64, 8] x bf16, 128>", "%0, %0", 2, "element type"),
            ("!hw.tensor_map<[64, 8] x f16, 128>", "%0, %0", 3, "number of barriers"),
            ("!hw.tensor_map<[64, 16] x f16, 128>", "%0, %0", 2, "do not fill"),
        ] {
            let found = found(map, coordinates, count);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
        let tile = "hw.producer {}\n%i = hw.iota 0 : !hw.tile<[128] x i32, <reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>";
        let roles = |body: &str| {
            let session = Session::new();
            let text = format!(
                "hw.kernel @k target \"sm_90a\" warps 4 grid [1] attributes {{producer_warps = 1 : i64}} {{\n{body}\nhw.return\n}}"
            );
            let module = session.parse_module(&text, "test").unwrap();
            check(&module).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(roles(tile), "");
        let lines: Vec<_> = tile.lines().rev().collect();
        assert!(roles(&lines.join("\n")).contains("a tile before hw.producer"));
        assert!(roles("").contains("no hw.producer"));
        let found = errors("hw.producer {}");
        assert!(found.len() == 1 && found[0].contains("no producer warps"), "{found:?}");
    }

    #[test]
    fn products_by_warpgroups_fit() {
        let shared = |rows: u32| {
            let basis = if rows == 2 { "[[0, 1], [1, 0]]" } else { "[[0, 1], [1, 0], [2, 0]]" };
            format!("!hw.shared<1 x [{rows}, 2] x f16, <offset = {basis}>>")
        };
        let tile = |columns: u32, element: &str| {
            let basis = if columns == 2 { "[[0, 1], [1, 0]]" } else { "[[0, 1], [0, 2], [1, 0]]" };
            let lanes = ["[0, 0]"; 5].join(", ");
            format!("!hw.tile<[2, {columns}] x {element}, <reg = {basis}, lane = [{lanes}], warp = []>>")
        };
        let found = |a: &str, b: &str, sums: &str, result: &str| {
            let is_tile = a.starts_with("!hw.tile");
            let left = if is_tile { "hw.splat %h : f16 -> " } else { "hw.alloc : " };
            errors(&format!(
                "%0 = arith.constant 0 : i32\n%h = arith.constant 0.0 : f16\n%f = arith.constant 0.0 : f32
                 %a = {left} {}\n%b = hw.alloc : {b}\n%c = hw.splat %f : f32 -> {}
                 %r = hw.wgmma \"i\" %a{}, %b[%0]{} : {a}, {b} -> {result}",
                if is_tile { a.replace("!hw.tile", "") } else { a.to_owned() },
                if sums.is_empty() { result } else { sums }.replace("!hw.tile", ""),
                if is_tile { "" } else { "[%0]" },
                if sums.is_empty() { String::new() } else { format!(", %c : {sums}") },
            ))
        };
        let (two, four) = (shared(2), shared(4));
        let [left, sums, wide] = [tile(2, "f16"), tile(2, "f32"), tile(4, "f32")];
        for a in [&two, &left] {
            assert_eq!(found(a, &two, "", &sums), Vec::<String>::new());
            assert_eq!(found(a, &two, &sums, &sums), Vec::<String>::new());
            for (b, sums, result, expected) in [
                (&four, "", &sums, "do not fit"),
                (&two, "", &wide, "do not fit"),
                (&two, &wide[..], &sums, "type of the result"),
            ] {
                let found = found(a, b, sums, result);
                assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
            }
        }
    }

    #[test]
    fn programs_name_kernels_that_exist() {
        let session = Session::new();
        let text = "hw.program @main arena 100 {
            %a = hw.buffer offset 0 bytes 200 alive 0 to 1 : !hw.buffer<tensor<4xf32>>
            hw.launch @missing grid [1] (%a) : !hw.buffer<tensor<4xf32>>
            hw.return }";
        let module = session.parse_module(text, "test").unwrap();
        let found: Vec<_> = check(&module).iter().map(ToString::to_string).collect();
        assert!(found[0].contains("outside an arena") && found[1].contains("no kernel `@missing`"), "{found:?}");
    }

    #[test]
    fn zeroed_buffers_lie_apart() {
        let found = |first: &str, second: &str| {
            let session = Session::new();
            let text = format!(
                "hw.program @main arena 512 {{
                 %a = hw.buffer offset 0 bytes 16 alive 0 to 1 {first} : !hw.buffer<tensor<4xi32>>
                 %b = hw.buffer offset {second} bytes 16 alive 3 to 3 : !hw.buffer<tensor<4xi32>>
                 hw.return }}"
            );
            let module = session.parse_module(&text, "test").unwrap();
            check(&module).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("{zeroed}", "16"), Vec::<String>::new());
        // Apart in time is enough for others alone.
        assert_eq!(found("", "12"), Vec::<String>::new());
        let shares = found("{zeroed}", "12");
        assert!(shares.len() == 1 && shares[0].contains("shares bytes with the `zeroed` buffer at 0"), "{shares:?}");
        let output = found("{output, zeroed}", "16");
        assert!(output.len() == 1 && output[0].contains("an output cannot be `zeroed`"), "{output:?}");
    }

    #[test]
    fn the_producer_does_not_arrive() {
        let session = Session::new();
        let text = "hw.kernel @k target \"sm_90a\" warps 4 grid [1] attributes {producer_warps = 1 : i64} {
            ^bb0(%p: !llvm.ptr<1>):
            %0 = arith.constant 0 : i32
            hw.producer { %n = hw.arrive %p[%0] of %0 : !llvm.ptr<1> }
            hw.return }";
        let module = session.parse_module(text, "test").unwrap();
        let found: Vec<_> = check(&module).iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains("all warps that compute arrive"), "{found:?}");
    }
}
