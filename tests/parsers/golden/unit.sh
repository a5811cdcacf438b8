f() { echo; }
