#define NCURSES_WIDECHAR 1
#include "cli/dash/screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <utf8proc.h>

static SCREEN *screen;
static bool with_mouse, utf8;
static struct termios before;
static bool have_before;

// Written as they are when there is no time for ncurses.
static char emergency[512];
static size_t n_emergency;
static volatile sig_atomic_t on;

bool screen_possible(char *why, size_t size) {
    const char *term = getenv("TERM");
    int rc = 0;
    why[0] = 0;
    if (!term || !*term || setupterm(term, STDOUT_FILENO, &rc) != OK) {
        snprintf(why, size, "%s%.40s: no such terminal here; try TERM=xterm-256color",
                 term && *term ? "TERM=" : "TERM is not set", term ? term : "");
        return false;
    }
    // "dumb" is known, but cannot move its cursor.
    bool moves = cursor_address != NULL;
    if (!moves)
        snprintf(why, size, "TERM=%.40s cannot place its cursor; try TERM=xterm-256color", term);
    del_curterm(cur_term);
    return moves;
}

static void append(const char *s) {
    size_t n = s ? strlen(s) : 0;
    // Paddings like $<5> are for line printers.
    for (size_t i = 0; i < n && n_emergency + 1 < sizeof emergency; i++) {
        if (s[i] == '$' && s[i + 1] == '<') {
            while (s[i] && s[i] != '>')
                i++;
            continue;
        }
        emergency[n_emergency++] = s[i];
    }
}

void screen_prepare_emergency(void) {
    n_emergency = 0;
    if (with_mouse)
        append("\033[?1006l\033[?1003l\033[?1002l\033[?1000l");
    append(exit_attribute_mode);
    append(keypad_local);
    append(cursor_normal);
    if (exit_ca_mode)
        append(exit_ca_mode);
    else
        append("\r\n");
}

void screen_emergency(void) {
    if (!on)
        return;
    on = 0;
    ssize_t n = write(STDOUT_FILENO, emergency, n_emergency);
    (void)n;
    if (have_before)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

// Colours -----------------------------------------------------------------------------------------

static short pair_of[INK_RAMP + 8];

static void make_pairs(int colours) {
    static const short curve256[] = {32, 166, 29, 132}, curve8[] = {6, 3, 2, 5};
    static const short ramp[] = {17, 53, 24, 30, 36, 78, 119, 226};
    memset(pair_of, 0, sizeof pair_of);
    if (colours == 0 || start_color() != OK || COLORS < 8)
        return;
    if (colours < 0 || colours > COLORS)
        colours = COLORS;
    use_default_colors();
    short next = 1;
    for (int i = 0; i < 4; i++) {
        init_pair(next, colours >= 256 ? curve256[i] : curve8[i], -1);
        pair_of[INK_A + i] = next++;
    }
    init_pair(next, colours >= 256 ? 166 : 3, -1);
    pair_of[INK_WARN] = next++;
    for (int i = 0; i < 8 && colours >= 256; i++) {
        init_pair(next, i < 4 ? 15 : 16, ramp[i]); // white on the dark ones, black on the others
        pair_of[INK_RAMP + i] = next++;
    }
}

static void report_mouse(bool yes) {
    if (!with_mouse)
        return;
    mousemask(yes ? ALL_MOUSE_EVENTS : 0, NULL);
}

bool screen_open(int colours, bool mouse, err *e) {
    have_before = tcgetattr(STDIN_FILENO, &before) == 0;
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen = newterm(NULL, stdout, stdin);
    if (!screen)
        return err_set(e, ERR_USAGE, "the terminal cannot be used");
    on = 1;
    set_term(screen);
    cbreak();
    noecho();
    nonl();
    intrflush(stdscr, FALSE);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    leaveok(stdscr, FALSE);
    typeahead(-1); // a frame is never cut short by the next key
    const char *delay = getenv("ESCDELAY");
    if (!delay || !*delay)
        set_escdelay(25);
    curs_set(0);
    with_mouse = mouse && key_mouse != NULL;
    mouseinterval(0);
    report_mouse(true);
    make_pairs(colours);
    screen_prepare_emergency();
    return true;
}

void screen_close(void) {
    if (!screen)
        return;
    bool stays = !exit_ca_mode;
    report_mouse(false);
    curs_set(1);
    if (stays)
        erase(), refresh();
    endwin();
    on = 0;
    if (have_before)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    delscreen(screen);
    screen = NULL;
}

bool screen_alternate(void) {
    return enter_ca_mode != NULL;
}

void screen_size(int *rows, int *cols) {
    struct winsize w = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
        *rows = w.ws_row;
        *cols = w.ws_col;
    } else {
        getmaxyx(stdscr, *rows, *cols);
    }
    *rows = *rows > SURFACE_MOST ? SURFACE_MOST : *rows;
    *cols = *cols > SURFACE_MOST ? SURFACE_MOST : *cols;
}

void screen_resize(int rows, int cols) {
    resizeterm(rows, cols);
}

void screen_repaint(void) {
    clearok(curscr, TRUE);
}

void screen_suspend(void) {
    report_mouse(false);
    curs_set(1);
    def_prog_mode();
    endwin();
    on = 0;
    if (have_before)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

void screen_resume(void) {
    have_before = tcgetattr(STDIN_FILENO, &before) == 0;
    reset_prog_mode();
    on = 1;
    refresh();
    curs_set(0);
    report_mouse(true);
    screen_prepare_emergency();
    clearok(curscr, TRUE);
}

static attr_t attributes(const cell *c) {
    return (c->attr & ATTR_REVERSE ? A_REVERSE : 0) | (c->attr & ATTR_UNDERLINE ? A_UNDERLINE : 0) |
           (c->attr & ATTR_DIM ? A_DIM : 0) | (c->attr & ATTR_BOLD ? A_BOLD : 0);
}

void screen_show(const surface *s, int caret_y, int caret_x) {
    int rows, cols;
    getmaxyx(stdscr, rows, cols);
    for (int y = 0; y < s->rows && y < rows; y++)
        for (int x = 0; x < s->cols && x < cols; x++) {
            const cell *c = &s->cell[(size_t)y * (size_t)s->cols + (size_t)x];
            if (c->cp == CELL_REST)
                continue;
            wchar_t text[2] = {c->cp ? (wchar_t)c->cp : L' ', 0};
            if (!utf8 && (uint32_t)text[0] >= 0x80)
                text[0] = L'?';
            cchar_t cc;
            setcchar(&cc, text, attributes(c), pair_of[c->ink < INK_RAMP + 8 ? c->ink : 0], NULL);
            // A wide character at the edge would be cut: a blank stands for it.
            if (utf8proc_charwidth((utf8proc_int32_t)text[0]) == 2 && x + 1 >= cols)
                setcchar(&cc, L" ", 0, 0, NULL);
            mvadd_wch(y, x, &cc);
        }
    if (caret_y >= 0 && caret_y < rows && caret_x < cols) {
        curs_set(1);
        move(caret_y, caret_x);
    } else {
        curs_set(0);
        move(rows - 1, cols - 1);
    }
    refresh();
}

// Input -------------------------------------------------------------------------------------------

static const char *special(wint_t k) {
    switch (k) {
    case KEY_LEFT:
        return "Left";
    case KEY_RIGHT:
        return "Right";
    case KEY_UP:
        return "Up";
    case KEY_DOWN:
        return "Down";
    case KEY_PPAGE:
        return "PgUp";
    case KEY_NPAGE:
        return "PgDn";
    case KEY_HOME:
        return "Home";
    case KEY_END:
        return "End";
    case KEY_BTAB:
        return "S-Tab";
    case KEY_ENTER:
        return "Enter";
    case KEY_BACKSPACE:
        return "Backspace";
    case KEY_DC:
        return "Delete";
    }
    return NULL;
}

static void mouse_event(screen_event *out) {
    MEVENT m;
    if (getmouse(&m) != OK)
        return;
    out->y = m.y;
    out->x = m.x;
    if (m.bstate & BUTTON4_PRESSED)
        out->wheel = -1;
#if NCURSES_MOUSE_VERSION > 1
    else if (m.bstate & BUTTON5_PRESSED)
        out->wheel = 1;
#endif
    out->press = m.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON1_DOUBLE_CLICKED);
    out->release = m.bstate & (BUTTON1_RELEASED | BUTTON1_CLICKED);
    out->twice = m.bstate & BUTTON1_DOUBLE_CLICKED;
}

bool screen_next(screen_event *out) {
    *out = (screen_event){.y = -1, .x = -1};
    wint_t k = 0;
    int rc = get_wch(&k);
    if (rc == ERR)
        return false;
    if (rc == KEY_CODE_YES) {
        const char *name = special(k);
        if (k == KEY_MOUSE)
            mouse_event(out);
        else if (name)
            snprintf(out->key, sizeof out->key, "%s", name);
        else if (k >= KEY_F(1) && k <= KEY_F(12))
            snprintf(out->key, sizeof out->key, "F%d", (int)(k - KEY_F(0)));
        return true;
    }
    if (k == '\t')
        snprintf(out->key, sizeof out->key, "Tab");
    else if (k == '\r' || k == '\n')
        snprintf(out->key, sizeof out->key, "Enter");
    else if (k == 27)
        snprintf(out->key, sizeof out->key, "Esc");
    else if (k == 127 || k == 8)
        snprintf(out->key, sizeof out->key, "Backspace");
    else if (k == ' ')
        snprintf(out->key, sizeof out->key, "Space");
    else if (k < 32)
        snprintf(out->key, sizeof out->key, "^%c", (char)(k + 64));
    else {
        utf8proc_ssize_t n =
            utf8proc_encode_char((utf8proc_int32_t)k, (utf8proc_uint8_t *)out->key);
        out->key[n > 0 ? n : 0] = 0;
    }
    return true;
}

void screen_write(const char *bytes, size_t n) {
    ssize_t k = write(STDOUT_FILENO, bytes, n);
    (void)k;
}
