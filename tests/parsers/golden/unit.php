<?php function f() {}
