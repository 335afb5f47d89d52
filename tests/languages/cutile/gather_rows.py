# out[i] = table[index[i]] by element gathers and scatters.
# kernelwright-launch: gather_rows grid=ceil_div(20,4) ROWS=4 COLUMNS=32
import cuda.tile as ct


@ct.kernel
def gather_rows(table, index, out, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    rows = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)
    columns = ct.arange(COLUMNS, dtype=ct.int32)
    wanted = ct.gather(index, rows)
    values = ct.gather(table, (wanted[:, None], columns[None, :]))
    ct.scatter(out, (rows[:, None], columns[None, :]), values)
