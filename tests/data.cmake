taxon_test(data DEPS data LIBS ZLIB::ZLIB TurboJPEG::turbojpeg PNG::PNG LibArchive::LibArchive)
