// Groups of rotations in one layer with n_h = 2: two reflections, half-angle apart, make a rotation
// (T04, DeltaProduct Theorem 4; science.md 3.4, G02).
#include "analyses/theory/single.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#define GOLDEN 1.6180339887498949

// ---- the plane --------------------------------------------------------------------------------------

// A rotation by theta: keys u and R(theta / 2) u; a reflection with mirror angle theta
// [[cos, sin], [sin, -cos]]: one key, (-sin theta/2, cos theta/2).
static void plane(single *s, int id, double theta, bool mirror) {
    double h = theta / 2;
    if (mirror) {
        single_set(s, id, 0, 2, (double[]){-sin(h), cos(h)}, NULL);
    } else if (fabs(sin(h)) > 1e-12) {
        single_set(s, id, 0, 2, (double[]){1, 0}, NULL);
        single_set(s, id, 1, 2, (double[]){cos(h), sin(h)}, NULL);
    }
}

static void write_identity_2(single *s, int bos) {
    single_set(s, bos, 0, 1, (double[]){1, 0}, (double[]){1, 0});
    single_set(s, bos, 1, 1, (double[]){0, 1}, (double[]){0, 1});
}

// R^T q of the element with angle theta, mirrored or not.
static void plane_answer(const double *q, double theta, bool mirror, double *out) {
    double c = cos(theta), d = sin(theta);
    out[0] = c * q[0] + d * q[1];
    out[1] = mirror ? d * q[0] - c * q[1] : -d * q[0] + c * q[1];
}

// C_m or D_m: elements r0 .. r(m-1), then s0 .. s(m-1).
static bool polygon(char kind, int m, theory_built *b, err *e) {
    single s;
    char name[16];
    snprintf(name, sizeof name, "%c%d", kind, m);
    group *g = group_named(name, e);
    word_task *t = g ? task_of_group(g, true, 1, e) : NULL;
    if (!single_init(&s, t, 2, 2, 2, t ? (size_t)(t->n_inputs + 2) * 8 : 0, e))
        return false;
    write_identity_2(&s, t->prefix[0]);
    s.q[0] = cos(M_PI / (2 * m)); // halfway to the first mirror: 2m answers, a regular 2m-gon
    s.q[1] = sin(M_PI / (2 * m));
    for (int a = 0; a < t->n_inputs; a++) {
        double theta = 2 * M_PI * (a % m) / m;
        plane(&s, a, theta, a >= m);
        plane_answer(s.q, theta, a >= m, s.answer + 2 * a);
    }
    return single_build(&s, b, e);
}

bool theory_cyclic(int m, theory_built *b, err *e) {
    return polygon('C', m, b, e);
}

bool theory_dihedral_rotations(int m, theory_built *b, err *e) {
    return polygon('D', m, b, e);
}

// S3 = D3 moves the corners t_i of a triangle: R_p = 2/3 sum_i t_{p(i)} t_i^T.
bool theory_s3_rotations(int n, theory_built *b, err *e) {
    (void)n;
    single s;
    group *g = group_named("S3", e);
    word_task *t = g ? task_of_group(g, true, 1, e) : NULL;
    if (!single_init(&s, t, 2, 2, 2, 64, e))
        return false;
    write_identity_2(&s, t->prefix[0]);
    s.q[0] = cos(M_PI / 6);
    s.q[1] = sin(M_PI / 6);
    for (int a = 0; a < 6; a++) {
        double c = 0, d = 0; // the first column of R_p: its angle
        for (int i = 0; i < 3; i++) {
            double to = 2 * M_PI * group_perm(g, a)[i] / 3;
            c += 2.0 / 3 * cos(to) * cos(2 * M_PI * i / 3);
            d += 2.0 / 3 * sin(to) * cos(2 * M_PI * i / 3);
        }
        bool mirror = group_sign(g, a) < 0;
        plane(&s, a, atan2(d, c), mirror);
        plane_answer(s.q, atan2(d, c), mirror, s.answer + 2 * a);
    }
    return single_build(&s, b, e);
}

// ---- space ------------------------------------------------------------------------------------------

// The axis of R (unit), and its angle in [0, pi]: the skew part is 2 sin(theta) times the axis, and
// atan2 keeps the digits that an acos of the trace would lose near 0 and pi. At pi the skew part
// vanishes, and R = 2 a a^T - I: the axis is its longest column plus that of I.
static double axis_angle(const double *R, double *axis) {
    double x = R[7] - R[5], y = R[2] - R[6], z = R[3] - R[1];
    double skew = sqrt(x * x + y * y + z * z), trace = R[0] + R[4] + R[8];
    double theta = atan2(skew, trace - 1);
    if (skew > 1e-9) {
        axis[0] = x / skew;
        axis[1] = y / skew;
        axis[2] = z / skew;
        return theta;
    }
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (R[i * 3 + i] > R[best * 3 + best])
            best = i;
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        axis[i] = R[i * 3 + best] + (i == best);
        sum += axis[i] * axis[i];
    }
    for (int i = 0; i < 3; i++)
        axis[i] /= sqrt(sum);
    return theta;
}

static void cross(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

// k1 = u, k2 = cos(theta/2) u + sin(theta/2) (a x u) for a unit u perpendicular to the axis a.
static void rotation(single *s, int id, const double *R) {
    double a[3], u[3] = {0}, w[3], k[3], sum = 0;
    double theta = axis_angle(R, a);
    if (theta < 1e-9)
        return;
    int least = fabs(a[0]) <= fabs(a[1]) ? 0 : 1;
    least = fabs(a[2]) < fabs(a[least]) ? 2 : least;
    for (int i = 0; i < 3; i++) {
        u[i] = (i == least) - a[least] * a[i];
        sum += u[i] * u[i];
    }
    for (int i = 0; i < 3; i++)
        u[i] /= sqrt(sum);
    cross(a, u, w);
    for (int i = 0; i < 3; i++)
        k[i] = cos(theta / 2) * u[i] + sin(theta / 2) * w[i];
    single_set(s, id, 0, 2, u, NULL);
    single_set(s, id, 1, 2, k, NULL);
}

// matrices: fills R [size, 9], zeroed before, with every element. Two prefix tokens write I_3, of rank 2 and 1.
static bool solid(const char *name, const double *q, void (*matrices)(const group *, double *),
                  theory_built *b, err *e) {
    single s;
    double R[60 * 9] = {0};
    group *g = group_named(name, e);
    word_task *t = g ? task_of_group(g, true, 2, e) : NULL;
    if (!single_init(&s, t, 3, 3, 2, t ? (size_t)(t->n_inputs + 4) * 8 : 0, e))
        return false;
    matrices(g, R);
    for (int i = 0; i < 3; i++) {
        double one[3] = {0};
        one[i] = 1;
        single_set(&s, t->prefix[i / 2], i % 2, 1, one, one);
        s.q[i] = q[i];
    }
    for (int a = 0; a < g->size; a++) {
        rotation(&s, a, R + 9 * a);
        for (int i = 0; i < 3; i++)
            for (int r = 0; r < 3; r++)
                s.answer[3 * a + i] += R[9 * a + 3 * r + i] * q[r];
    }
    return single_build(&s, b, e);
}

// The cube's diagonals d_i: R_p = sign(p) / 4 sum_i d_{p(i)} d_i^T, whole numbers. Even elements turn
// the tetrahedron.
static void cube(const group *g, double *R) {
    static const double d[4][3] = {{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}};
    for (int a = 0; a < g->size; a++)
        for (int i = 0; i < 4; i++)
            for (int r = 0; r < 9; r++)
                R[9 * a + r] +=
                    group_sign(g, a) / 4.0 * d[group_perm(g, a)[i]][r / 3] * d[i][r % 3];
}

static void times(const double *A, const double *B, double *out) {
    for (int i = 0; i < 9; i++)
        out[i] = A[i / 3 * 3] * B[i % 3] + A[i / 3 * 3 + 1] * B[3 + i % 3] +
                 A[i / 3 * 3 + 2] * B[6 + i % 3];
}

// R(a, theta) = cos I + sin [a]x + (1 - cos) a a^T, a of any length.
static void turn(const double *a, double theta, double *R) {
    double n = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]), c = cos(theta), s = sin(theta);
    double x = a[0] / n, y = a[1] / n, z = a[2] / n;
    double skew[9] = {0, -z, y, z, 0, -x, -y, x, 0}, u[3] = {x, y, z};
    for (int i = 0; i < 9; i++)
        R[i] = (i % 4 == 0 ? c : 0) + s * skew[i] + (1 - c) * u[i / 3] * u[i % 3];
}

// One axis of each of the dodecahedron's five frames of orthogonal two-fold axes; the other two
// follow. A rotation moves the frames.
static const double frame[5][3][3] = {
    {{2, 0, 0}, {0, 2, 0}, {0, 0, 2}},
    {{1, GOLDEN, 1 / GOLDEN}, {-GOLDEN, 1 / GOLDEN, 1}, {-1 / GOLDEN, 1, -GOLDEN}},
    {{1 / GOLDEN, 1, GOLDEN}, {1, -GOLDEN, 1 / GOLDEN}, {-GOLDEN, -1 / GOLDEN, 1}},
    {{GOLDEN, 1 / GOLDEN, 1}, {1 / GOLDEN, 1, -GOLDEN}, {1, -GOLDEN, -1 / GOLDEN}},
    {{1, GOLDEN, -1 / GOLDEN}, {-1 / GOLDEN, 1, GOLDEN}, {GOLDEN, -1 / GOLDEN, 1}},
};

static void frames_moved(const double *R, uint8_t *p) {
    for (int i = 0; i < 5; i++) {
        double x[3], best = -1;
        for (int r = 0; r < 3; r++)
            x[r] = R[3 * r] * frame[i][0][0] + R[3 * r + 1] * frame[i][0][1] +
                   R[3 * r + 2] * frame[i][0][2];
        for (int k = 0; k < 5; k++)
            for (int ax = 0; ax < 3; ax++) {
                const double *f = frame[k][ax];
                double dot = fabs(x[0] * f[0] + x[1] * f[1] + x[2] * f[2]);
                if (dot > best) {
                    best = dot;
                    p[i] = (uint8_t)k;
                }
            }
    }
}

// R <- the orthogonal matrix nearest to it.
static void orthogonal(double *R) {
    double s[3], u[9], vt[9], work[2];
    LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'A', 'A', 3, 3, R, 3, s, u, 3, vt, 3, work);
    times(u, vt, R);
}

// All 60, by multiplying out 72 degrees about (0, phi, 1) and 120 degrees about (1, 1, 1).
static void dodecahedron(const group *g, double *R) {
    double generator[2][9];
    bool known[60] = {false};
    int queue[60], n = 0;
    turn((double[]){0, GOLDEN, 1}, 2 * M_PI / 5, generator[0]);
    turn((double[]){1, 1, 1}, 2 * M_PI / 3, generator[1]);
    for (int i = 0; i < 3; i++)
        R[9 * g->identity + 4 * i] = 1;
    known[g->identity] = true;
    queue[n++] = g->identity;
    for (int at = 0; at < n; at++)
        for (int k = 0; k < 2; k++) {
            double product[9];
            uint8_t p[5];
            times(generator[k], R + 9 * queue[at], product);
            orthogonal(product);
            frames_moved(product, p);
            for (int a = 0; a < g->size; a++)
                if (!known[a] && memcmp(group_perm(g, a), p, 5) == 0) {
                    memcpy(R + 9 * a, product, sizeof product);
                    known[a] = true;
                    queue[n++] = a;
                }
        }
}

bool theory_a4_rotations(int n, theory_built *b, err *e) {
    (void)n;
    return solid("A4", (double[]){0.850, 0.252, 0.463}, cube, b, e);
}

bool theory_s4_rotations(int n, theory_built *b, err *e) {
    (void)n;
    return solid("S4", (double[]){0.850, 0.252, 0.463}, cube, b, e);
}

bool theory_a5_rotations(int n, theory_built *b, err *e) {
    (void)n;
    return solid("A5", (double[]){0.764, 0.513, 0.393}, dodecahedron, b, e);
}
