#layout = #hw.layout<reg = [[64]], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>
#layout1 = #hw.layout<reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @arrive target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1), %arg3: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.program_id 0 loc(#loc1)
    %c128_i32 = arith.constant 128 : i32 loc(#loc1)
    %1 = arith.muli %0, %c128_i32 : i32 loc(#loc1)
    %2 = hw.iota 0 : <[128] x i32, #layout> loc(#loc1)
    %3 = hw.map(%2) : (!hw.tile<[128] x i32, #layout>) -> !hw.tile<[128] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32_0 = arith.constant 0 : i32 loc(#loc1)
      %c128_i32_1 = arith.constant 128 : i32 loc(#loc1)
      %8 = arith.muli %c0_i32_0, %c128_i32_1 : i32 loc(#loc1)
      %9 = arith.addi %8, %arg4 : i32 loc(#loc1)
      hw.yield %9 : i32 loc(#loc1)
    } loc(#loc1)
    %4 = hw.map(%3) : (!hw.tile<[128] x i32, #layout>) -> !hw.tile<[128] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %8 = arith.addi %arg4, %1 : i32 loc(#loc1)
      hw.yield %8 : i32 loc(#loc1)
    } loc(#loc1)
    %5 = hw.load %arg0[%4] : !llvm.ptr<1>, <[128] x i32, #layout> -> <[128] x f32, #layout> loc(#loc1)
    hw.store %5, %arg2[%4] : <[128] x f32, #layout>, !llvm.ptr<1>, <[128] x i32, #layout> loc(#loc1)
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
    %c4_i32 = arith.constant 4 : i32 loc(#loc1)
    %6 = hw.arrive %arg3[%c0_i32] of %c4_i32 : !llvm.ptr<1> loc(#loc1)
    %c3_i32 = arith.constant 3 : i32 loc(#loc1)
    %7 = arith.cmpi eq, %6, %c3_i32 : i32 loc(#loc1)
    scf.if %7 {
      %cst = arith.constant 0.000000e+00 : f32 loc(#loc1)
      %8 = hw.splat %cst : f32 -> <[128] x f32, #layout1> loc(#loc1)
      %c0_i32_0 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32_1 = arith.constant 4 : i32 loc(#loc1)
      %c1_i32 = arith.constant 1 : i32 loc(#loc1)
      %9 = scf.for %arg4 = %c0_i32_0 to %c4_i32_1 step %c1_i32 iter_args(%arg5 = %8) -> (!hw.tile<[128] x f32, #layout1>)  : i32 {
        %c128_i32_2 = arith.constant 128 : i32 loc(#loc1)
        %11 = arith.muli %arg4, %c128_i32_2 : i32 loc(#loc1)
        %12 = hw.iota 0 : <[128] x i32, #layout1> loc(#loc1)
        %13 = hw.map(%12) : (!hw.tile<[128] x i32, #layout1>) -> !hw.tile<[128] x i32, #layout1> {
        ^bb0(%arg6: i32 loc("model.onnx":1:1)):
          %16 = arith.addi %arg6, %11 : i32 loc(#loc1)
          hw.yield %16 : i32 loc(#loc1)
        } loc(#loc1)
        %14 = hw.load %arg2[%13] : !llvm.ptr<1>, <[128] x i32, #layout1> -> <[128] x f32, #layout1> loc(#loc1)
        %15 = hw.map(%arg5, %14) : (!hw.tile<[128] x f32, #layout1>, !hw.tile<[128] x f32, #layout1>) -> !hw.tile<[128] x f32, #layout1> {
        ^bb0(%arg6: f32 loc("model.onnx":1:1), %arg7: f32 loc("model.onnx":1:1)):
          %16 = arith.addf %arg6, %arg7 : f32 loc(#loc1)
          hw.yield %16 : f32 loc(#loc1)
        } loc(#loc1)
        scf.yield %15 : !hw.tile<[128] x f32, #layout1> loc(#loc1)
      } loc(#loc1)
      %10 = hw.iota 0 : <[128] x i32, #layout1> loc(#loc1)
      hw.store %9, %arg1[%10] : <[128] x f32, #layout1>, !llvm.ptr<1>, <[128] x i32, #layout1> loc(#loc1)
    } loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
