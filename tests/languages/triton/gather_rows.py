# out[i] = table[index[i]]
# kernelwright-launch: gather_rows grid=20 COLUMNS=32
import triton
import triton.language as tl


@triton.jit
def gather_rows(table, index, out, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    wanted = tl.load(index + row)
    tl.store(out + row * COLUMNS + columns, tl.load(table + wanted * COLUMNS + columns))
